"""Programs of peers/, imported as their own interpreters would."""

import importlib
import sys
from pathlib import Path

import gymnasium
import pytest

_PEERS = Path(__file__).parent / "peers"


@pytest.fixture
def load(monkeypatch):
    """Imports a program, and forgets it afterwards."""
    monkeypatch.syspath_prepend(str(_PEERS))
    names = [path.stem for path in _PEERS.glob("*.py")]
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    monkeypatch.setattr(gymnasium, "make", gymnasium.make)  # a program may change it
    monkeypatch.setenv("JAX_PLATFORMS", "")
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)
