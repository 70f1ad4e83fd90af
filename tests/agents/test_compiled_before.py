"""A run whose machine code an earlier process stored has the bits of that which compiled it."""

import pytest

from tests.agents.digests import KINDS, digest


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_runs_have_the_same_bits_with_a_cold_and_a_warm_cache(kind, tmp_path):
    cache = {"TARGETNET_XLA_CACHE": "on", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    cold = digest(KINDS[kind], tmp_path / "cold", **cache)
    stored = {path for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    assert bool(stored) == (KINDS[kind].get("xla") != "false")
    assert digest(KINDS[kind], tmp_path / "warm", **cache) == cold
    # It compiled nothing.
    assert stored == {path for path in (tmp_path / "cache").rglob("*") if path.is_file()}
