"""What is measured: who does which work, and what is wanted of the ratios. Data, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

ALL = "all"  # of the cores that are given
Setting = Mapping[str, Any]

# What is compared, from what a round counts.
QUANTITIES = ("env steps/s", "updates/s", "us/update", "us", "s", "MB")
LESS_IS_BETTER = ("us/update", "us", "s", "MB")


@dataclass(frozen=True)
class Worker:
    """One side of a comparison.

    Attributes:
      program: its script is peers/<program>_worker.py.
      setup: what the script is told.
      venv: its environment; "" is ours.
      tried: settings over `setup`, of which the fastest is kept. Its "threads" are also the
        cores that it is pinned to; "with" "oneDNN" has TensorFlow use it; "flags" are XLA's: "ours"
        or "XLA's own".
      cores: how many it may use, if not as many as threads.
      updates: that it must make for each env step, or, without env steps, for each that is
        asked for.
      slack: updates by which the number may differ, where a phase hangs over a round's end.
      count: asked for in each round; None: as many as take the round's seconds.
      arguments: that the script is started with.
      before: whether it is of the earlier commit that the command may be given.
    """

    program: str
    setup: Mapping[str, Any]
    venv: str = ""
    tried: tuple[Setting, ...] = ({"threads": 1},)
    cores: int | None = None
    updates: float = 0.0
    slack: int = 0
    count: int | None = None
    arguments: tuple[str, ...] = ()
    before: bool = False


@dataclass(frozen=True)
class Bar:
    """What is wanted: the median over rounds of quantity(of) / quantity(to); `to` "" is 1."""

    of: str
    to: str = ""
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Scenario:
    """A comparison.

    Attributes:
      seconds: of a turn of one worker.
      turns: of each in a round, which is their sum. More than one where the difference is small:
        how fast a machine is changes within seconds.
      fresh: whether each round has processes of its own: two of the same kind differ by a percent
        or two, by where things happen to lie in their memory.
    """

    name: str
    title: str
    quantity: str
    workers: Mapping[str, Worker]
    bars: tuple[Bar, ...] = ()
    seconds: float = 2.0
    turns: int = 1
    fresh: bool = False
    note: str = ""


PEER: tuple[Setting, ...] = ({"threads": 1}, {"threads": 2}, {"threads": ALL})
_FLAGS = ("XLA's own", "ours")
_JAX = tuple({"flags": flags, **setting} for flags in _FLAGS for setting in PEER)

# Training: the same work for everybody. Epsilon is what a schedule ends with: a random action
# costs next to nothing, and most of a run is not random.
_WORK = {
    "batch_size": 64, "capacity": 10_000, "learn_start": 1_000, "sync_period": 500,
    "epsilon": 0.05, "hidden": (64, 64), "warm_up": 2_000,
}  # fmt: skip
_CONFIG = {
    "env_id": "CartPole-v1", "hidden": (64, 64), "batch_size": 64, "replay_capacity": 10_000,
    "learn_start": 1_000, "sync_period": 500, "learning_rate": 1e-3, "epsilon": 0.05,
    "past_states": 0,
}  # fmt: skip


def ours(
    learn_period: int, updates: int, *, cores: int = 1, slack: int = 0, **config: Any
) -> Worker:
    """Training on one core, if nothing else is said."""
    phases = {"learn_period": learn_period, "updates_per_learn": updates}
    setup = {"kind": "train", "config": _CONFIG | phases | config, "warm_up": 2_000}
    return Worker("ours", setup, cores=cores, updates=updates / learn_period, slack=slack)


def _peer(program: str, venv: str, learn_period: int, **setup: Any) -> Worker:
    setup = _WORK | {"kind": "train", "learn_period": learn_period} | setup
    return Worker(program, setup, venv, PEER, updates=1 / learn_period)


def _yardstick(
    script: str, *arguments: str, count: int, updates: float = 1.0, slack: int = 0
) -> Worker:
    """An unchanged script of yardsticks/, which learns from `count` env steps in a turn."""
    setup = {"script": script, "arguments": arguments, "checker": False}
    return Worker("yardstick", setup, "jax", _JAX, updates=updates, slack=slack, count=count)


def _with_checker(worker: Worker, checker: bool) -> Worker:
    return replace(worker, setup={**worker.setup, "checker": checker})


def _cartpole(
    name: str, learn_period: int, bars: tuple[Bar, ...], *, checker: bool = False
) -> Scenario:
    each = "one update per env step" if learn_period == 1 else "one update per four env steps"
    K16 = 16 * learn_period
    workers = {
        "ours, K = 1": ours(learn_period, 1),
        "ours, K = 16": ours(K16, 16),
        "ours, concurrent": ours(4 * K16, 64, cores=2, slack=64, loop="concurrent"),
        "SB3": _peer("sb3", "sb3", learn_period, library="stable_baselines3"),
        "SBX": _peer("sb3", "sbx", learn_period, library="sbx"),
        "Tianshou": _peer("tianshou", "tianshou", learn_period),
        "JAX per step": _yardstick(
            "jax_per_step_dqn",
            "--learn-period",
            str(learn_period),
            count=30_000,
            updates=1 / learn_period,
            slack=1,
        ),
        "CleanRL's JAX DQN": replace(_peer("cleanrl_jax", "jax", learn_period), tried=_JAX),
        # It makes as many updates as env steps.
        "JAX, K = 16": _yardstick("jax_k_updates_dqn", "--k", "16", count=60_000, slack=16),
        "JAX, K = 64": _yardstick("jax_k_updates_dqn", "--k", "64", count=60_000, slack=64),
    }
    compared = {label for bar in bars for label in (bar.of, bar.to)}
    return Scenario(
        name,
        f"CartPole-v1, MLP 64-64, batch 64, {each}" + checker * ", with Gymnasium's checker",
        "env steps/s",
        {
            label: _with_checker(worker, checker)
            for label, worker in workers.items()
            if label in compared
        }
        | ({} if checker else {"bare env": _BARE}),
        bars,
        note="Our workers use one core, the concurrent loop uses two. Adam, replay of 10,000 "
        "rows, hard sync every 500 updates, epsilon 0.05. K updates are made at once, every K "
        "periods; the concurrent loop makes 64 at once. JAX: the scripts in "
        "tests/benchmarks/yardsticks, unchanged; their epsilon falls from 1 to 0.05 within the "
        "first 10,000 of 30,000 env steps where they act with JAX. CleanRL's is our own code "
        "after the structure that it publishes (tests/benchmarks/peers/cleanrl_jax_worker.py), "
        "and learns by the mean squared error. Every env is made "
        + ("with" if checker else "without")
        + " Gymnasium's checker of every step.",
    )


_BARE = Worker("floors", {"kind": "env", "envs": 1})


def _large_mlp() -> Scenario:
    size: dict[str, Any] = {"hidden": (256, 256), "batch_size": 256}
    workers = {
        "ours, K = 1": ours(1, 1, **size),
        "ours, K = 16": ours(16, 16, **size),
        "SB3": _peer("sb3", "sb3", 1, library="stable_baselines3", **size),
        "Tianshou": _peer("tianshou", "tianshou", 1, **size),
    }
    return Scenario(
        "large-mlp",
        "CartPole-v1, MLP 256-256, batch 256, one update per env step",
        "env steps/s",
        {label: _with_checker(worker, False) for label, worker in workers.items()},
        tuple(Bar(f"ours, K = {K}", peer) for peer in ("SB3", "Tianshou") for K in (1, 16)),
        note="As CP-A, with a larger network and larger batches. Our workers use one core.",
    )


def _learner(updates: int, **config: Any) -> Worker:
    """Updates alone, on CartPole's shapes."""
    setup = {
        "kind": "learn", "config": _CONFIG | {"updates_per_learn": updates} | config,
        "shape": (4,), "dtype": "float32", "actions": 2, "warm_up": 64,
    }  # fmt: skip
    return Worker("ours", setup, updates=1)


# All that Tianshou's worker is told of the agent, in the words of our config.
_PLAIN = _CONFIG | {
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
    names = {f"ours, K = {K}": _learner(K, **config) for K in (1, 16)}
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
        f"{kind}, {size:,}": _learner(
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
    def of_ours(updates: int) -> Worker:
        config = {
            "network": name, "batch_size": 32, "replay_capacity": capacity,
            "updates_per_learn": updates, "past_states": 0, "learning_rate": 2.5e-4,
        }  # fmt: skip
        setup = {
            "kind": "learn", "config": config, "shape": shape, "dtype": dtype, "actions": 6,
            "warm_up": 8,
        }  # fmt: skip
        tried: tuple[Setting, ...] = tuple({"threads": n} for n in (1, 2, ALL))
        # Compiled updates have no operations that oneDNN could make.
        if updates == 1 or name == "nature":
            tried += tuple({"with": "oneDNN"} | setting for setting in tried)
        return Worker("ours", setup, tried=tried, updates=1)

    peer = {
        "library": "stable_baselines3", "kind": "learn", "images": name, "capacity": capacity,
        "actions": 6, "batch_size": 32, "warm_up": 64,
    }  # fmt: skip
    names = {f"ours, K = {K}": of_ours(K) for K in (1, 16)}
    return Scenario(
        name,
        title,
        "updates/s",
        names | {"SB3": Worker("sb3", peer, "sb3", PEER, updates=1)},
        tuple(Bar(ours, "SB3", least=2) for ours in names),
        note="There is no env: the replay is full of random frames. Each worker runs with its "
        "best number of threads. oneDNN means `onednn = true`, which makes convolutions "
        "faster and small layers slower.",
    )


def _compiled(num_envs: int) -> Scenario:
    N = num_envs
    # One update for each iteration of N envs.
    yardstick = _yardstick(
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
                ours(N, 1, slack=1, loop="compiled", num_envs=N, env_id="InGraph/CartPole-v1"),
                cores=None,
                tried=_JAX,
            ),
            "JAX compiled": yardstick,
            "PureJaxRL's compiled DQN": replace(_peer("purejaxrl", "jax", N, envs=N), tried=_JAX),
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
        setup = {"kind": "part", "part": part, "config": _CONFIG | phases, "warm_up": 2_000}
        updates = {"learn": 1.0, "loop": 1.0}.get(part, 0.0)
        workers[label] = Worker("ours", setup, updates=updates, slack=K)
        workers[f"before: {label}"] = replace(workers[label], before=True)
    return Scenario(
        "parts",
        "Where a time step goes",
        "us",
        workers,
        tuple(Bar(label, f"before: {label}") for label in parts),
        seconds=1.0,
        note='CartPole-v1, MLP 64-64, batch 64, one update per env step, one core. "Before" '
        "is the commit at which the work on speed began: `git worktree add before 6586ea2`.",
    )


def _overhead(updates: int) -> Scenario:
    K = updates
    # Of the clock; while one is at work the other waits.
    config = {"checkpoint_seconds": 20.0, "eval_period": 10**12, "past_states": 4}
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
    peer = _with_checker(_peer("sb3", "sb3", 1, library="stable_baselines3"), False)
    return Scenario(
        "memory",
        "Memory of a run",
        "MB",
        # With all cores it would be slower, and has as much memory.
        {"a run of `cartpole`": whole, "SB3": replace(peer, tried=({"threads": 1},), count=8_000)},
        (Bar("a run of `cartpole`", most=300), Bar("a run of `cartpole`", "SB3")),
        fresh=True,
        note="What a process has to itself, without the files that processes share. Ours: the "
        "config that is shipped, all of it, with its replay of 100,000 rows, control, logging, "
        "checkpoints and evaluations, after 42,000 of its 50,000 env steps. SB3: the training "
        "of CP-A alone, with one thread, after the 10,000 env steps that fill its replay.",
    )


def _start(what: str, venv: str = "") -> Worker:
    return Worker("start", {"what": what}, venv, tried=({"threads": ALL},), count=1)


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
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
            ),
        ),
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
                "bare env": _BARE,
                "bare vector env, 64": Worker("floors", {"kind": "env", "envs": 64}),
            },
            (
                Bar("ours, 64 envs", "bare env", least=60 / 106),
                Bar("ours, 64 envs, concurrent", "bare env", least=60 / 106),
            ),
            note="One core; the concurrent loop has two cores and makes 64 updates during "
            "each 256 env steps. The goal 0.566 is 60,000 env steps per second, where the "
            "bare loop of one env makes 106,000. The bare vector env resets in the step after "
            "an episode's end and counts that step too.",
        ),
        Scenario(
            "fused",
            "Updates made at once beside their matrix products",
            "us/update",
            {
                **{f"ours, K = {K}": _learner(K) for K in (1, 16, 64, 100)},
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
        _large_mlp(),
        *(_compiled(N) for N in (1, 16, 128, 1_024)),
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
        Scenario(
            "start",
            "From the start of a command",
            "s",
            {
                "targetnet --help": _start("help"),
                "targetnet train, to the first env step": _start("first_step"),
                "SB3, to the first env step": _start("sb3_first_step", "sb3"),
                "beside it, import tensorflow alone": _start("tensorflow"),
            },
            (
                Bar("targetnet --help", most=0.5),
                Bar(
                    "targetnet train, to the first env step", "SB3, to the first env step", most=1
                ),
                Bar(
                    "beside it, import tensorflow alone", "targetnet train, to the first env step"
                ),
            ),
            note="Wall clock of separate processes, with all files in the system's cache. "
            "`train` imports only part of TensorFlow, and prints the time of the import when "
            "it starts. SB3 is a script of six lines: import, one CartPole-v1, DQN, learn.",
        ),
        *(_overhead(K) for K in (1, 16)),
        _memory(),
        _parts(),
    )
}  # fmt: skip
