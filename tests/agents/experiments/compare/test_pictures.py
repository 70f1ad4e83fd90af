"""Pictures of a comparison: names and labels of any kind."""

import pytest

pytest.importorskip("matplotlib")

from targetnet.agents.experiments.compare.page import draw
from targetnet.agents.experiments.statistics import Estimate


@pytest.mark.cases(2)
@pytest.mark.parametrize("label", ["$_$", "a $ sign", "two $\\frac{$ signs", "tau = 0.01"])
def test_a_label_is_no_formula(tmp_path, label):
    lines = {"area": {label: [(1.0, Estimate(2.0, None)), (10.0, Estimate(3.0, None))]}}
    for path in draw(label, lines, label, tmp_path / "page" / "x"):
        assert path.stat().st_size > 1_000
