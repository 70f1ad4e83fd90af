"""The shipped configs learn what the README says they learn."""

import os

import numpy as np
import pytest

from tests.learning.seeds import final_returns

pytestmark = pytest.mark.slow
JOBS = min(4, os.cpu_count() or 1)


def test_cartpole_is_solved_by_nine_of_ten_seeds():
    returns = final_returns("cartpole", seeds=10, jobs=JOBS)
    assert sum(mean >= 475 for mean in returns) >= 9, returns


@pytest.mark.parametrize(("config", "bar"), [("acrobot", -90), ("mountaincar", -115)])
def test_five_seeds_reach_the_bar(config, bar):
    returns = final_returns(config, seeds=5, jobs=JOBS)
    assert np.mean(returns) >= bar, returns
