"""Makes golden runs of this release: `python -m tests.golden.make KIND DIRECTORY`.

A later release must resume them and, on the same processor, repeat them bit for bit, or refuse
and say exactly what is missing. They are never made again; a release whose checkpoints differ adds
its own. `first` was made by version 0.1. `compiled` was made once more before the release of 1.0,
when chunks became as long as the config says: with a ring as small as this they had been shorter.
"""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.population.train import train_population
from targetnet.agents.run.train import train
from targetnet.rl_core.machine import processor
from targetnet.rl_core.schedules import Linear

SMALL: dict[str, Any] = {
    "env_steps": 200, "hidden": (4,), "batch_size": 4, "replay_capacity": 60, "learn_start": 20,
    "learn_period": 4, "log_period": 100, "eval_period": 1_000, "eval_episodes": 1,
    "final_eval_episodes": 1, "xla": False, "checkpoint_seconds": 0, "checkpoint_keep": 1,
    "past_states": 1, "sync_period": Linear(start=5, end=20, steps=200),
}  # fmt: skip
PRIORITIZED = {"prioritized": True, "n_step": 3}
FREEZE = ({"exempt": ("head",), "updates": 5}, {"exempt": ("torso",), "updates": 4})
KINDS: dict[str, dict[str, Any]] = {
    "chain": {**PRIORITIZED, "chain": 3, "refresh_period": 4, "freeze": FREEZE, "num_envs": 2},
    "recurrent": {**PRIORITIZED, "recurrent": "gru", "recurrent_units": 4, "sequence_length": 8,
                  "burn_in": 4, "replay_capacity": 100},
    "remote": {**PRIORITIZED, "loop": "remote", "actors": 2, "num_envs": 2, "actor_steps": 10,
               "updates_per_learn": 2, "replay_capacity": 200},
    "compiled": {**PRIORITIZED, "loop": "compiled", "env_id": "InGraph/CartPole-v1", "num_envs": 2,
                 "chunk": 50, "freeze": FREEZE},
    "population": {"tau": 0.5, "ema_decay": 0.9},
}  # fmt: skip
PROCESSOR = "processor.txt"
_KIND = re.compile(r"(?m)^(cpu family|model|stepping|cache size)\s*: (.*)$")


def this_processor() -> str:
    """Returns the processor's name and its kind: another one of that name may round otherwise."""
    cpuinfo = Path("/proc/cpuinfo")
    kind = dict(_KIND.findall(cpuinfo.read_text())) if cpuinfo.exists() else {}
    return ", ".join([processor(), *(f"{name} {value}" for name, value in kind.items())])


def main() -> None:
    kind, run = sys.argv[1], Path(sys.argv[2])
    config = DqnConfig(**SMALL | KINDS[kind])

    def on_tick(agent: Any, tick: Any) -> None:
        if tick.env_step >= 100 and agent.hyperparameters["discount"] == 0.99:
            agent.hyperparameters["discount"] = 0.9

    if kind == "population":
        train_population(config, run, members=["learning_rate=0.001,0.01"], on_tick=on_tick)
    else:
        here = {"ray": "off"} if kind == "remote" else {}
        train(config, run, on_tick=on_tick, **here)
    for made in (path for path in sorted(run.rglob("*")) if path.exists()):
        if made.name.startswith("events.") or made.name in UNREAD:
            shutil.rmtree(made) if made.is_dir() else made.unlink()
    (run / PROCESSOR).write_text(this_processor() + "\n")


# What a run at work needs, and a resume makes anew.
UNREAD = {"inbox", "token", "state.json", "lock"}

if __name__ == "__main__":
    main()
