"""Prints the digests of many kinds of short runs, for comparing two commits on one machine.

    python -m tests.agents.digests > after.txt

Only the command line is used, so the file can be copied into an older tree. Every run is a process
of its own; steered ones are changed by their config's schedules, so that they need no second
process.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COMMON = {
    "env_steps": 3_000, "hidden": "[16]", "batch_size": 16, "replay_capacity": 2_000,
    "learn_start": 100, "learn_period": 4, "sync_period": 37, "eval_period": 1_500,
    "eval_episodes": 1, "final_eval_episodes": 1, "checkpoint_steps": 1_100,
    # Digests are compared with those of versions that may have other defaults.
    "updates_per_learn": 1, "learning_rate": 1e-3, "loss": "huber",
    "epsilon": '{schedule="linear", start=1.0, end=0.05, steps=10_000}',
}  # fmt: skip
FREEZE = '[{exempt=["head"], updates=30}, {exempt=["torso"], updates=20}]'
GROWING = '{schedule="linear", start=10, end=90, steps=3000}'
C51 = {"head": "categorical", "v_min": 0.0, "v_max": 50.0, "atoms": 11, "loss": "huber"}
MASKED = {"env_id": "Taxi-v4"}
IN_GRAPH = {"loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 250}
CONCURRENT = {"loop": "concurrent", "learn_period": 16, "updates_per_learn": 8}
FUSED = {"learn_period": 16, "updates_per_learn": 8}
# Without the keys of a replay and of a target network.
ROLLOUTS = {"rollout": 20, "num_envs": 4, "epochs": 2, "layer_norm": "true", "loss": "squared",
            "replay_capacity": 100_000, "learn_start": 1_000, "sync_period": 10,
            "updates_per_learn": 2}  # fmt: skip
KINDS = {
    "plain": {},
    "plain, without XLA": {"xla": "false"},
    "plain, a growing sync period": {"sync_period": GROWING},
    "fused": FUSED,
    "fused, without XLA": {**FUSED, "xla": "false"},
    "eight envs, freezing": {"num_envs": 8, **FUSED, "freeze": FREEZE},
    "freezing, single updates": {"freeze": FREEZE, "xla": "false"},
    "double, squared": {"double": "true", "loss": "squared"},
    "dueling, soft target": {"dueling": "true", "tau": 0.1, "sync_period": 1},
    "three targets": {"averaged_targets": 3},
    "held still": {"online_weight": 0.25, "min_weight": 0.5, "functional_weight": 0.1,
                   "proximal_weight": 0.5},
    "conservative": {"cql_weight": 0.5},
    "Adam is new at each sync": {"on_sync": '["reset_moments"]', **FUSED},
    "a chain": {"chain": 3, "refresh_period": 4},
    "a chain of heads": {"chain": 3, "chain_torso": "shared", **FUSED},
    "averaged weights": {"ema_decay": 0.99},
    "n-step, prioritized": {"n_step": 3, "prioritized": "true"},
    "prioritized, fused": {"prioritized": "true", **FUSED},
    "noisy, Boltzmann": {"noisy": "true", "boltzmann": "true"},
    "categorical, double": {**C51, "double": "true", "n_step": 3},
    "categorical, three targets": {**C51, "averaged_targets": 3},
    "HL-Gauss": {**C51, "loss": "hl_gauss"},
    "quantile": {"head": "quantile", "quantiles": 8},
    "implicit": {"head": "implicit", "tau_samples": 8, "tau_samples_acting": 4},
    "fqf, prioritized": {"head": "fqf", "fractions": 8, "prioritized": "true"},
    "munchausen": {"munchausen": "true"},
    "munchausen, quantile": {"munchausen": "true", "head": "quantile", "quantiles": 8},
    "rainbow": {**C51, "double": "true", "dueling": "true", "prioritized": "true", "n_step": 3,
                "noisy": "true", "epsilon": 0.0},
    "layer norm, head layers": {"layer_norm": "true", "head_hidden": "[8]"},
    "rollouts": ROLLOUTS,
    "rollouts, compiled": {**ROLLOUTS, **IN_GRAPH},
    "action masks": MASKED,
    "action masks, double, n-step": {**MASKED, "double": "true", "n_step": 3},
    "async": {"num_envs": 2, "vectorization": "async"},
    "concurrent": CONCURRENT,
    "concurrent, prioritized, four envs": {**CONCURRENT, "prioritized": "true", "num_envs": 4},
    "compiled": {**IN_GRAPH, **FUSED},
    "compiled, four envs, freezing": {**IN_GRAPH, "num_envs": 4, "freeze": FREEZE},
    "compiled, fqf": {**IN_GRAPH, "head": "fqf", "fractions": 8},
    "compiled, a chain": {**IN_GRAPH, "chain": 3, "refresh_period": 4},
    "compiled, categorical, prioritized": {**IN_GRAPH, **C51, "prioritized": "true", "n_step": 3},
}  # fmt: skip


class Failed(Exception):
    """What the command said last."""


def digest(settings: Mapping[str, Any], run: Path, **environ: str) -> str:
    """Trains in a process of its own; returns the digest at the end."""
    config = run.with_suffix(".toml")
    config.write_text('env_id = "CartPole-v1"\n')
    changes = [f"{key}={value}" for key, value in {**COMMON, **settings}.items()]
    command = [
        sys.executable,
        "-m",
        "targetnet.agents.cli",
        "train",
        str(config),
        "--run",
        str(run),
    ]
    done = subprocess.run(
        [*command, "--set", *changes], env=os.environ | environ, capture_output=True, text=True
    )
    if done.returncode:
        raise Failed(done.stderr.strip().splitlines()[-1])
    return str(json.loads((run / "digest.json").read_text())["digest"])


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, settings) in enumerate(KINDS.items()):
            try:
                found = digest(settings, Path(folder) / str(number))
            except Failed as error:
                found = str(error)
            print(f"{name}: {found}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
