"""Runs that are steered, and end as if they were killed, as far as one can do it in a process."""

from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util.tensor_util import make_ndarray


class Crash(Exception):
    """What a kill does, as far as one can do it within a process."""


def setting(changes):
    """Sets a value at the first tick from each of these env steps on; again after a resume."""

    def on_tick(agent, tick):
        live = agent.hyperparameters
        for env_step, (name, value) in changes.items():
            if tick.env_step >= env_step and name in live and live.source(name) != "override":
                live[name] = value

    return on_tick


def crash_at(moment, watch=lambda agent, tick: None):
    """Watches, and crashes at the first time step from that env step on."""

    def on_tick(agent, tick):
        watch(agent, tick)
        if tick.env_step >= moment:
            raise Crash

    return on_tick


def curves(run, *, complete=True):
    """Tag -> [(step, value)] of every scalar and histogram but the speed."""
    found = {}
    for event_file in sorted(run.glob("events.*")):
        for event in EventFileLoader(str(event_file)).Load():
            for value in event.summary.value:
                if not value.tag.startswith(("speed/", "control/changes", "run/", "_hparams")):
                    point = (event.step, make_ndarray(value.tensor).tolist())
                    found.setdefault(value.tag, []).append(point)
    assert not complete or ("evaluation/return" in found and "episode/return" in found)
    return found
