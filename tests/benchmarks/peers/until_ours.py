"""Ours until a mark is reached: a whole run of a shipped config, as `targetnet train` makes it."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from until_mark import Watch, from_command_line

sys.path.insert(0, str(Path(__file__).parents[3]))
_SETTINGS_OF_THE_CLOCK = ("seed", "env_steps", "eval_period", "eval_episodes")


class _Over(Exception):
    """Ends the run."""


class Watcher:
    """The run's own evaluations, as a sink gets them."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._updates, self._last = watch, 0, time.perf_counter()

    def on_tick(self, agent: Any, tick: Any) -> None:
        if self._watch.over:
            raise _Over
        # An evaluation comes right after this call.
        self._updates, self._last = agent.updates, time.perf_counter()

    def scalars(self, values: Mapping[str, float], env_step: int) -> None:
        if "evaluation/return" in values:
            seconds = time.perf_counter() - self._last
            self._watch.note(values["evaluation/return"], env_step, self._updates, seconds)

    def close(self) -> None:
        pass


def main(watch: Watch) -> None:
    from targetnet.agents.config.files import load_config
    from targetnet.agents.run.process import Startup, quiet_import

    asked = watch.asked
    values = asked | {
        # The run goes on beyond the last evaluation, which would else be another one.
        "env_steps": asked["env_steps"] + asked["period"],
        "eval_period": asked["period"],
        "eval_episodes": asked["episodes"],
    }
    changes = [f"{name}={values[name]}" for name in _SETTINGS_OF_THE_CLOCK]
    config = load_config(asked["config"], changes)
    with quiet_import(onednn=config.onednn) as importing:
        from rich.console import Console

        from targetnet.agents.run.train import train
    watcher, startup = Watcher(watch), Startup(time.perf_counter(), importing)
    with tempfile.TemporaryDirectory(dir=watch.path.parent) as directory:
        try:
            train(
                config,
                Path(directory) / "run",
                console=Console(),
                on_tick=watcher.on_tick,
                startup=startup,
                sinks=[watcher],
            )
        except _Over:
            source = f"configs/{asked['config']}.toml"
            watch.write(asked["settings"], source, ("tensorflow", "gymnasium", "numpy"))
            return
    raise SystemExit(130)  # interrupted, and stopped as a run does


if __name__ == "__main__":
    main(from_command_line())
