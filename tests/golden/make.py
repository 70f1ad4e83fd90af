"""Makes the golden run of this release: `python -m tests.golden.make DIRECTORY`.

A later release must resume it, or refuse and say exactly what is missing. It is never made
again; a release whose checkpoints differ adds a second one.
"""

import shutil
import sys
from pathlib import Path

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.train import train

CONFIG = DqnConfig(
    env_steps=200, hidden=(4,), batch_size=4, replay_capacity=60, learn_start=20, learn_period=4,
    log_period=100, eval_period=1_000, eval_episodes=1, final_eval_episodes=1, xla=False,
    ema_decay=0.9, past_states=1, checkpoint_seconds=0, checkpoint_keep=1, num_envs=2,
)  # fmt: skip


def main():
    run = Path(sys.argv[1])

    def on_tick(agent, tick):
        if tick.env_step >= 100 and agent.hyperparameters["tau"] == 1.0:
            agent.hyperparameters["tau"] = 0.5

    train(CONFIG, run, on_tick=on_tick)
    control = [run / "control" / name for name in ("inbox", "token", "state.json", "lock")]
    for path in (*run.glob("events.*"), *control):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main()
