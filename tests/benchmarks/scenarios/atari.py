"""One of ALE's games as it is trained: frames skipped, made gray and stacked, with the updates."""

from __future__ import annotations

from typing import Any

from tests.benchmarks.scenarios.kinds import (
    ALL,
    BFLOAT16,
    NOT_EQUAL,
    PEER,
    Bar,
    Scenario,
    Setting,
    Worker,
)

_ROWS = 20_000
_ROWS_FOR_MEMORY = 100_000
# As configs/atari-dqn.toml, with smaller replays, and epsilon as it is after the beginning.
_OURS = {
    "env_id": "ALE/Pong-v5", "env_kwargs": {"frameskip": 1, "repeat_action_probability": 0.25},
    "env_wrapper": "atari", "frame_stack": 4, "network": "nature", "hidden": (512,),
    "reward_clip": 1.0, "batch_size": 32, "learn_start": 1_000, "sync_period": 2_000,
    "loss": "squared", "learning_rate": 6.25e-5, "adam_epsilon": 1.5e-4, "epsilon": 0.05,
    "past_states": 0,
}  # fmt: skip
_PEER = {
    "library": "stable_baselines3", "kind": "atari", "env_id": "ALE/Pong-v5", "learn_start": 1_000,
    "batch_size": 32, "learn_period": 4, "sync_period": 2_000, "epsilon": 0.05, "warm_up": 1_200,
}  # fmt: skip
_SAME = (
    "ALE/Pong-v5 by Gymnasium's AtariPreprocessing on both sides: four frames an action, sticky "
    "actions, 84 x 84, gray. SB3's envs stack four by Gymnasium's wrapper, ours in the replay. "
    "Nature network, batch 32, one update per four env steps, a replay that is full. Ours learns "
    "by the squared error, SB3 by Huber's loss. "
)


def _ours(learn_period: int, updates: int, rows: int, *tried: Setting, **more: Any) -> Worker:
    phases = {"learn_period": learn_period, "updates_per_learn": updates, "replay_capacity": rows}
    setup = {"kind": "train", "config": _OURS | phases | more, "warm_up": 1_200, "full": True}
    slack = updates if updates > 1 else 1
    return Worker("ours", setup, tried=tried, updates=updates / learn_period, slack=slack)


def _sb3(rows: int, *tried: Setting) -> Worker:
    return Worker("sb3", _PEER | {"capacity": rows}, "sb3-atari", tried, updates=1 / 4, slack=1)


_ONEDNN: tuple[Setting, ...] = tuple({"threads": n, "with": "oneDNN"} for n in (1, 2, ALL))
_ONE: Setting = {"threads": 1, "with": "oneDNN"}
_ROUNDED: Setting = {"compute": "bfloat16", "onednn": True}
_TWO: tuple[Setting, ...] = ({**_ONE, "threads": 2},)

ATARI: tuple[Scenario, ...] = (
    Scenario(
        "atari",
        "Pong: Nature network, batch 32, one update per four env steps",
        "env steps/s",
        {
            "ours": _ours(4, 1, _ROWS, *_ONEDNN),
            "ours, concurrent": _ours(64, 16, _ROWS, *_TWO, loop="concurrent"),
            BFLOAT16: _ours(4, 1, _ROWS, *_ONEDNN, **_ROUNDED),
            f"{BFLOAT16}, concurrent": _ours(64, 16, _ROWS, *_TWO, loop="concurrent", **_ROUNDED),
            "SB3": _sb3(_ROWS, *PEER),
        },
        tuple(
            Bar(f"{ours}{loop}", "SB3", least=2)
            for ours in ("ours", BFLOAT16)
            for loop in ("", ", concurrent")
        ),
        seconds=5.0,
        note=_SAME + "The concurrent loop makes 16 updates during each 64 env steps, and both "
        "sides may use all cores. Ours has oneDNN's convolutions, as the shipped config does."
        + NOT_EQUAL,
    ),
    Scenario(
        "atari-memory",
        f"Memory of the same with {_ROWS_FOR_MEMORY:,} rows",
        "MB",
        {
            "ours": _ours(4, 1, _ROWS_FOR_MEMORY, _ONE),
            "SB3": _sb3(_ROWS_FOR_MEMORY, {"threads": 1}),
        },
        (Bar("ours", "SB3", most=0.5),),
        seconds=2.0,
        note=_SAME + "What a process has to itself. SB3 with optimize_memory_usage, which keeps "
        "four frames for each row and not eight; ours keeps one.",
    ),
)
