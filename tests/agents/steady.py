"""Settings of a run in which nothing changes by itself while a test looks on."""

from typing import Any

from targetnet.rl_core.schedules import Linear

# One update a phase; epsilon hardly falls within a few hundred env steps.
STEADY: dict[str, Any] = {
    "sync_period": 500,
    "updates_per_learn": 1,
    "learning_rate": 1e-3,
    "loss": "huber",
    "epsilon": Linear(start=1.0, end=0.05, steps=10_000),
}
