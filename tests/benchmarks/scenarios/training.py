"""Training: env steps per second, with the updates that belong to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.benchmarks.scenarios.kinds import JAX, PEER, Bar, Scenario, Worker
from tests.benchmarks.scenarios.sides import BARE, ours, peer, per_step, with_checker, yardstick

_CLEANRL = (
    "CleanRL's is our own code after the structure that it publishes "
    "(tests/benchmarks/peers/cleanrl_jax_worker.py), and learns by the mean squared error. "
)
# The peers can make updates at once too, though by default they do not.
_AT_ONCE = tuple(Bar("ours, K = 16", f"{peer}, 16 at once") for peer in ("SB3", "SBX", "Tianshou"))
# What is not the same for all.
_ENVS = (
    "Ours and SB3 clip gradients at a norm of 10, the JAX scripts do not. Ours gives the action "
    "space of the env a `contains` with the same answers that is faster; it takes about a third "
    "off CartPole's own step. "
)
# A loop with what its library puts around it, and one without.
_AROUND = (
    "Ours is the loop alone: what checkpoints, curves and steering cost is in whole-1 and "
    "whole-16. SB3, SBX and Tianshou train as their users have them train, with their own "
    "loggers and monitors. "
)
_VECTOR = (
    "Ours steps Gymnasium's own vectorised CartPole, all 64 in one call to NumPy. SB3 and SBX "
    "step 64 CartPoles in Python one after the other, as their make_vec_env makes them: the "
    "difference in the envs' own time is that of the last two rows."
)
_CHECKED = (
    "Every env is made with Gymnasium's checker. In version 1.4.0 it looks at an env's first step "
    "alone, so this is CP-A once more, in another sitting: what differs between them is noise."
)


def _cartpole(
    name: str, learn_period: int, bars: tuple[Bar, ...], *, checker: bool = False
) -> Scenario:
    each = "one update per env step" if learn_period == 1 else "one update per four env steps"
    K16 = 16 * learn_period
    workers = {
        "ours, K = 1": ours(learn_period, 1),
        "ours, K = 16": ours(K16, 16),
        "ours, concurrent": ours(4 * K16, 64, cores=2, slack=64, loop="concurrent"),
        "SB3": peer("sb3", "sb3", learn_period, library="stable_baselines3"),
        "SBX": peer("sb3", "sbx", learn_period, library="sbx"),
        "Tianshou": peer("tianshou", "tianshou", learn_period),
        "SB3, 16 at once": peer("sb3", "sb3", K16, updates=16, library="stable_baselines3"),
        "SBX, 16 at once": peer("sb3", "sbx", K16, updates=16, library="sbx"),
        "Tianshou, 16 at once": peer("tianshou", "tianshou", K16, updates=16),
        "JAX per step": per_step(learn_period),
        "CleanRL's JAX DQN": replace(peer("cleanrl_jax", "jax", learn_period), tried=JAX),
        # It makes as many updates as env steps.
        "JAX, K = 16": yardstick("jax_k_updates_dqn", "--k", "16", count=60_000, slack=16),
        "JAX, K = 64": yardstick("jax_k_updates_dqn", "--k", "64", count=60_000, slack=64),
    }
    compared = {label for bar in bars for label in (bar.of, bar.to)}
    return Scenario(
        name,
        f"CartPole-v1, MLP 64-64, batch 64, {each}" + checker * ", with Gymnasium's checker",
        "env steps/s",
        {
            label: with_checker(worker, checker)
            for label, worker in workers.items()
            if label in compared
        }
        | ({} if checker else {"bare env": BARE}),
        bars,
        note="Our workers use one core, the concurrent loop uses two. Adam, replay of 10,000 "
        "rows, hard sync every 500 updates, epsilon 0.05. K updates are made at once, every K "
        "periods; the concurrent loop makes 64 at once. JAX: the scripts in "
        "tests/benchmarks/yardsticks, unchanged; their epsilon falls from 1 to 0.05 within the "
        "first 10,000 of 30,000 env steps where they act with JAX. "
        + (_CLEANRL if "CleanRL's JAX DQN" in compared else "")
        + _ENVS
        + _AROUND
        + (_CHECKED if checker else "Every env is made without Gymnasium's checker."),
    )


def _large_mlp() -> Scenario:
    size: dict[str, Any] = {"hidden": (256, 256), "batch_size": 256}
    workers = {
        "ours, K = 1": replace(ours(1, 1, **size), cores=None, tried=PEER),
        "ours, K = 16": replace(ours(16, 16, **size), cores=None, tried=PEER),
        "SB3": peer("sb3", "sb3", 1, library="stable_baselines3", **size),
        "SBX": peer("sb3", "sbx", 1, library="sbx", **size),
        "Tianshou": peer("tianshou", "tianshou", 1, **size),
        "CleanRL's JAX DQN": replace(peer("cleanrl_jax", "jax", 1, **size), tried=JAX),
    }
    return Scenario(
        "large-mlp",
        "CartPole-v1, MLP 256-256, batch 256, one update per env step",
        "env steps/s",
        {label: with_checker(worker, False) for label, worker in workers.items()},
        tuple(
            Bar(f"ours, K = {K}", theirs)
            for theirs in ("SB3", "SBX", "Tianshou", "CleanRL's JAX DQN")
            for K in (1, 16)
        ),
        note="As CP-A, with a larger network and larger batches, and as many threads for each "
        "worker as it is fastest with. " + _CLEANRL,
    )


def _compiled(num_envs: int) -> Scenario:
    N = num_envs
    # One update for each iteration of N envs.
    compiled = yardstick(
        "jax_compiled_dqn", "--envs", str(N), "--updates", "1",
        count=max(20_000, 10_000 * N), updates=1 / N, slack=0,
    )  # fmt: skip
    return Scenario(
        f"compiled-{N}",
        f"Env, replay and updates in one compiled loop: {N} CartPole envs, one update for each "
        "step of all",
        "env steps/s",
        {
            "ours, compiled": replace(
                ours(
                    N,
                    1,
                    slack=1,
                    loop="compiled",
                    num_envs=N,
                    env_id="InGraph/CartPole-v1",
                    chunk=1_000,  # as the script's
                ),
                cores=None,
                tried=JAX,
            ),
            "JAX compiled": compiled,
            "PureJaxRL's compiled DQN": replace(peer("purejaxrl", "jax", N, envs=N), tried=JAX),
        },
        (
            Bar("ours, compiled", "JAX compiled", least=1.2),
            Bar("ours, compiled", "PureJaxRL's compiled DQN"),
        ),
        note='Each figure is the best one over threads and flags of XLA. "ours" means 512-bit '
        "vectors and the order of one thread. JAX: tests/benchmarks/yardsticks/"
        "jax_compiled_dqn.py, unchanged. PureJaxRL's is our own code after the structure that it "
        "publishes (tests/benchmarks/peers/purejaxrl_worker.py), and learns by the mean squared "
        "error.",
    )


TRAINING: tuple[Scenario, ...] = (
    _cartpole(
        "CP-A",
        1,
        (
            Bar("ours, K = 1", "JAX per step", least=2),
            Bar("ours, K = 1", "CleanRL's JAX DQN"),
            Bar("ours, K = 16", "JAX, K = 16", least=1.3),
            Bar("ours, concurrent", "JAX, K = 64"),
            Bar("ours, K = 1", "SB3", least=7),
            Bar("ours, K = 16", "SB3", least=16),
            Bar("ours, concurrent", "SB3", least=25),
            Bar("ours, K = 1", "SBX"),
            Bar("ours, K = 1", "Tianshou"),
            *_AT_ONCE,
        ),
    ),
    _cartpole(
        "CP-A-checked",
        1,
        (
            Bar("ours, K = 1", "JAX per step", least=2),
            Bar("ours, K = 16", "JAX, K = 16", least=1.3),
            Bar("ours, K = 1", "SB3", least=7),
        ),
        checker=True,
    ),
    _cartpole(
        "CP-B",
        4,
        (
            Bar("ours, K = 16", "SB3", least=15),
            Bar("ours, K = 1", "SB3"),
            Bar("ours, K = 1", "JAX per step"),
            Bar("ours, K = 1", "CleanRL's JAX DQN"),
            Bar("ours, concurrent", "SB3"),
            Bar("ours, K = 1", "SBX"),
            Bar("ours, K = 1", "Tianshou"),
            *_AT_ONCE,
        ),
    ),
    _large_mlp(),
    Scenario(
        "vector",
        "64 CartPole envs of a vector env, 16 updates per 64 env steps",
        "env steps/s",
        {
            "ours, 64 envs": ours(
                64, 16, slack=16, num_envs=64, vectorization="vector_entry_point"
            ),
            "ours, 64 envs, concurrent": ours(
                256, 64, slack=64, cores=2, loop="concurrent", num_envs=64,
                vectorization="vector_entry_point",
            ),
            "SB3, 64 envs": peer(
                "sb3", "sb3", 64, updates=16, envs=64, library="stable_baselines3"
            ),
            "SBX, 64 envs": peer("sb3", "sbx", 64, updates=16, envs=64, library="sbx"),
            "bare env": BARE,
            "bare vector env, 64": Worker("floors", {"kind": "env", "envs": 64}),
        },
        (
            Bar("ours, 64 envs", "bare env", least=60 / 106),
            Bar("ours, 64 envs, concurrent", "bare env", least=60 / 106),
            Bar("ours, 64 envs", "SB3, 64 envs"),
            Bar("ours, 64 envs", "SBX, 64 envs"),
            Bar("ours, 64 envs, concurrent", "SBX, 64 envs"),
        ),
        note="One core; the concurrent loop has two cores and makes 64 updates during "
        "each 256 env steps. The goal 0.566 is 60,000 env steps per second, where the "
        "bare loop of one env makes 106,000. The bare vector env resets in the step after "
        "an episode's end and counts that step too. " + _VECTOR,
    ),
    *(_compiled(N) for N in (1, 16, 128, 1_024)),
)  # fmt: skip
