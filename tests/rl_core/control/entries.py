"""Entries of a log for tests."""

from targetnet.rl_core.control.log import Entry


def entry(number=1, **fields):
    """A change of tau from 1.0 to 0.5 that was taken, but for `fields`."""
    plain = {
        "id": f"{number:032x}", "asked": 1.0, "time": 2.0, "who": "cli", "kind": "set",
        "name": "tau", "value": 0.5, "old": 1.0, "new": 0.5, "tick": 3, "env_step": 2, "update": 1,
    }  # fmt: skip
    return Entry(**(plain | fields))
