"""A run as its user has it: start, what goes with the loop, memory, and where the time goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.benchmarks.scenarios.kinds import ALL, Bar, Scenario, Worker
from tests.benchmarks.scenarios.sides import CONFIG, ours, peer, per_step, with_checker


def _parts() -> Scenario:
    """Where a time step goes: what a loop calls, each on its own."""
    parts = {
        "the env's step": ("env", 1),
        "acting and storing, K = 1": ("act", 1),
        "an update, K = 1": ("learn", 1),
        "an env step of the whole loop, K = 1": ("loop", 1),
        "acting and storing, K = 16": ("act", 16),
        "an update, K = 16": ("learn", 16),
        "an env step of the whole loop, K = 16": ("loop", 16),
    }
    workers = {}
    for label, (part, K) in parts.items():
        phases = {"learn_period": K, "updates_per_learn": K}
        setup = {"kind": "part", "part": part, "config": CONFIG | phases, "warm_up": 2_000}
        updates = {"learn": 1.0, "loop": 1.0}.get(part, 0.0)
        workers[label] = Worker("ours", setup, updates=updates, slack=K)
    return Scenario(
        "parts",
        "Where a time step goes",
        "us",
        workers,
        seconds=1.0,
        note="CartPole-v1, MLP 64-64, batch 64, one update per env step, one core. The whole is "
        "more than its parts: each finds less of its code and data in the caches.",
    )


def _overhead(updates: int) -> Scenario:
    K = updates
    # Of the clock; while one is at work the other waits.
    config: dict[str, Any] = {"checkpoint_seconds": 20.0, "eval_period": 10**12, "past_states": 4}
    # The same env steps of the same run: how often episodes end is not the same all along.
    bare = replace(ours(K, K, slack=K, **config), count=8_000 if K == 1 else 16_000)
    # What is done for the first time is over by then: files made, tags described.
    bare = replace(bare, setup={**bare.setup, "warm_up": 20_000})
    whole = replace(bare, setup={**bare.setup, "kind": "run"}, arguments=("run",))
    return Scenario(
        f"whole-{K}",
        f"A whole run beside the bare loop, K = {K}",
        "env steps/s",
        {"whole run": whole, "bare loop": bare},
        (Bar("whole run", "bare loop", least=0.98),),
        turns=10,
        fresh=True,
        note="Control and logging use their defaults. There is a checkpoint every 10 seconds of "
        "training instead of 60, and no evaluation. In a round each of the two takes 10 "
        "turns, alternately, in separate processes. A ratio of 0.97 is an overhead of 3 %.",
    )


def _memory() -> Scenario:
    # 42,000 of the config's 50,000 env steps, with four evaluations.
    whole = Worker(
        "ours",
        {"kind": "run", "shipped": "cartpole", "warm_up": 2_000},
        # With all cores, as without a benchmark: libraries have threads for each of them.
        tried=({"threads": ALL},),
        updates=16 / 32,
        slack=16,
        count=40_000,
        arguments=("run",),
    )
    sb3 = with_checker(peer("sb3", "sb3", 1, library="stable_baselines3"), False)
    return Scenario(
        "memory",
        "Memory of a run",
        "MB",
        # With all cores it would be slower, and has as much memory.
        {"a run of `cartpole`": whole, "SB3": replace(sb3, tried=({"threads": 1},), count=8_000)},
        (Bar("a run of `cartpole`", most=300), Bar("a run of `cartpole`", "SB3")),
        fresh=True,
        note="What a process has to itself, without the files that processes share. Ours: the "
        "config that is shipped, all of it, with its replay of 100,000 rows, control, logging, "
        "checkpoints and evaluations, after 42,000 of its 50,000 env steps. SB3: the training "
        "of CP-A alone, with one thread, after the 10,000 env steps that fill its replay.",
    )


def _start(what: str) -> Worker:
    return Worker("start", {"what": what}, tried=({"threads": ALL},), count=1)


def _peer_start(program: str, worker: Worker, *packages: str) -> Worker:
    """The worker's training, from the start of a process to its first env step."""
    setup = {"what": "peer", "program": program, "task": worker.setup, "packages": packages}
    return Worker("start", setup, worker.venv, tried=({"threads": ALL},), count=1)


_TRAIN = "targetnet train, to the first env step"
# Everything beside SB3 and SBX trains as its worker does in CP-A.
_PEERS = {
    "SB3": _peer_start("stable_baselines3", peer("sb3", "sb3", 1), "stable_baselines3", "torch"),
    "SBX": _peer_start("sbx", peer("sb3", "sbx", 1), "sbx-rl", "jax"),
    "Tianshou": _peer_start(
        "tianshou", with_checker(peer("tianshou", "tianshou", 1), False), "tianshou", "torch"
    ),
    "CleanRL's JAX DQN": _peer_start(
        "cleanrl_jax", with_checker(peer("cleanrl_jax", "jax", 1), False), "jax"
    ),
    "JAX per step": _peer_start("jax_per_step_dqn", per_step(1), "jax"),
}

RUNS: tuple[Scenario, ...] = (
    Scenario(
        "start",
        "From the start of a command",
        "s",
        {
            "targetnet --help": _start("help"),
            _TRAIN: _start("first_step"),
            **{f"{name}, to the first env step": worker for name, worker in _PEERS.items()},
            "beside it, import tensorflow alone": _start("tensorflow"),
        },
        (
            Bar("targetnet --help", most=0.5),
            *(
                Bar(_TRAIN, f"{name}, to the first env step", most=1 if name == "SB3" else None)
                for name in _PEERS
            ),
            Bar("beside it, import tensorflow alone", _TRAIN),
        ),
        note="Wall clock of separate processes, with all files in the system's cache. "
        "`train` imports only part of TensorFlow, and prints the time of the import when "
        "it starts. SB3 and SBX are scripts of six lines: import, one CartPole-v1, DQN, learn. "
        "The others start as in CP-A. Updates are compiled when they are first made, by ours, "
        "SBX and the JAX scripts, which is not in these times.",
    ),
    *(_overhead(K) for K in (1, 16)),
    _memory(),
    _parts(),
)  # fmt: skip
