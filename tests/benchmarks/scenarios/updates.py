"""Updates alone, on a replay that is full: what they take, and what takes it."""

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
from tests.benchmarks.scenarios.sides import CONFIG, learner

# All that Tianshou's worker is told of the agent, in the words of our config.
_PLAIN = CONFIG | {
    "discount": 0.99, "double": True, "n_step": 1, "loss": "huber", "head": "scalar",
    "head_hidden": (), "dueling": False, "noisy": False, "prioritized": False,
}  # fmt: skip
_ATOMS: dict[str, Any] = {"head": "categorical", "atoms": 51, "v_min": 0.0, "v_max": 100.0}


def _family(
    name: str, title: str, note: str = "", least: float | None = 3.0, **config: Any
) -> Scenario:
    """Updates alone, by ours and by Tianshou's own `update`."""
    config = _PLAIN | config
    peer = {"kind": "learn", "config": config, "shape": (4,), "actions": 2, "warm_up": 64}
    names = {f"ours, K = {K}": learner(K, **config) for K in (1, 16)}
    return Scenario(
        name,
        f"Updates of {title}, batch 64",
        "updates/s",
        names | {"Tianshou": Worker("tianshou", peer, "tianshou", PEER, updates=1)},
        tuple(Bar(ours, "Tianshou", least=least) for ours in names),
        note="There is no env: the replay is full, 10,000 random rows of 4 floats and 2 actions. "
        "Adam, hard sync every 500 updates; the online network chooses the next action, as it "
        "always does in Tianshou's distributional agents. Ours uses one core. It also limits the "
        "norm of gradients, for which Tianshou's has no setting." + (note and f" {note}"),
    )


def _prioritized(updates: int) -> Scenario:
    sizes = (10_000, 100_000, 1_000_000)
    workers = {
        f"{kind}, {size:,}": learner(
            updates, replay_capacity=size, prioritized=kind == "prioritized"
        )
        for size in sizes
        for kind in ("uniform", "prioritized")
    }
    bars = [Bar(f"prioritized, {n:,}", f"uniform, {n:,}", most=1.5) for n in sizes]
    bars += [
        Bar(f"{kind}, 1,000,000", f"{kind}, 10,000", most=1.15)
        for kind in ("prioritized", "uniform")
    ]
    return Scenario(
        f"PER-{updates}",
        f"Prioritized beside uniform replay, K = {updates}",
        "us/update",
        workers,
        tuple(bars),
        seconds=1.0,
    )


def _images(name: str, title: str, shape: tuple[int, ...], dtype: str, capacity: int) -> Scenario:
    def of_ours(updates: int, **more: Any) -> Worker:
        config = {
            "network": name, "batch_size": 32, "replay_capacity": capacity,
            "updates_per_learn": updates, "past_states": 0, "learning_rate": 2.5e-4,
            "loss": "huber", "sync_period": 500, **more,
        }  # fmt: skip
        setup = {
            "kind": "learn", "config": config, "shape": shape, "dtype": dtype, "actions": 6,
            "warm_up": 8,
        }  # fmt: skip
        tried: tuple[Setting, ...] = tuple({"threads": n} for n in (1, 2, ALL))
        # Compiled updates have no operations that oneDNN could make.
        with_onednn = tuple({"with": "oneDNN", **setting} for setting in tried)
        if more:
            tried = with_onednn
        elif updates == 1 or name == "nature":
            tried += with_onednn
        return Worker("ours", setup, tried=tried, updates=1)

    peer = {
        "library": "stable_baselines3", "kind": "learn", "images": name, "capacity": capacity,
        "actions": 6, "batch_size": 32, "warm_up": 64,
    }  # fmt: skip
    names = {f"ours, K = {K}": of_ours(K) for K in (1, 16)}
    note = ""
    if name == "nature":
        names[BFLOAT16] = of_ours(1, compute="bfloat16", onednn=True)
        note = NOT_EQUAL
    return Scenario(
        name,
        title,
        "updates/s",
        names | {"SB3": Worker("sb3", peer, "sb3", PEER, updates=1)},
        tuple(Bar(ours, "SB3", least=2) for ours in names),
        note="There is no env: the replay is full of random frames. Each worker runs with its "
        "best number of threads. oneDNN means `onednn = true`, which makes convolutions "
        "faster and small layers slower." + note,
    )


UPDATES: tuple[Scenario, ...] = (
    Scenario(
        "fused",
        "Updates made at once beside their matrix products",
        "us/update",
        {
            **{f"ours, K = {K}": learner(K) for K in (1, 16, 64, 100)},
            "its products alone": Worker(
                "floors", {"kind": "products", "warm_up": 200}, updates=1
            ),
            "one square sgemm": Worker("floors", {"kind": "sgemm", "warm_up": 5}, updates=1),
        },
        (
            Bar("ours, K = 1", "ours, K = 64", most=2),
            Bar("ours, K = 64", "its products alone", most=1.3),
        ),
        note="Batch 64, MLP 4-64-64-2, a full replay of 10,000; one core. The products are "
        "three forward of each network and five backward, called from a C program with the "
        "sgemm of NumPy's OpenBLAS. The square sgemm is of 1,024 x 1,024 matrices.",
    ),
    *(_prioritized(K) for K in (1, 16)),
    _family(
        "prioritized-update",
        "DQN with prioritized replay, MLP 64-64",
        "The loss is the squared error: Tianshou's Huber loss leaves out the weights of the "
        "transitions.",
        loss="squared", prioritized=True, priority_alpha=0.6, priority_beta=0.4,
    ),
    _family("c51", "C51 with 51 atoms, MLP 64-64", **_ATOMS),
    _family(
        "qrdqn", "QR-DQN with 32 quantiles, MLP 64-64",
        least=None, head="quantile", quantiles=32,
    ),
    _family(
        "iqn",
        "IQN with 8 fractions, MLP 64-64",
        "8 fractions are drawn for the online and 8 for the target network, each with 64 "
        "cosines. The next action is chosen by 8 more, which Tianshou draws; ours are fixed. "
        "Ours also has the means over those for the observation itself, for its curves.",
        head="implicit", tau_samples=8, tau_samples_acting=8,
    ),
    _family(
        "rainbow",
        "Rainbow with 51 atoms, 64 units, then 64 in each of two streams",
        "Prioritized replay, returns of 3 steps, dueling; both layers of a stream are noisy. "
        "Ours draws noise for each of three passes, Tianshou for each of two networks. "
        "Tianshou's next observation is the one after a single step; that is as much work.",
        **_ATOMS, hidden=(64,), head_hidden=(64,), dueling=True, noisy=True, n_step=3,
        prioritized=True, priority_alpha=0.5, priority_beta=0.4,
    ),
    _images("nature", "Nature network, 84x84x4 bytes, batch 32", (84, 84, 4), "uint8", 5_000),
    _images("minatar", "MinAtar network, 10x10x4 bools, batch 32", (10, 10, 4), "bool", 10_000),
)  # fmt: skip
