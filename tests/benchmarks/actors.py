"""The command that measures actors, and calculates where they end.

    python -m tests.benchmarks.actors --sleeping
    python -m tests.benchmarks.actors --learner
    python -m tests.benchmarks.actors --ends

The actors are Ray's, on this machine.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import tyro

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.remote.actor_pool import ActorPool
from targetnet.agents.remote.collector import Collector
from targetnet.agents.remote.deliveries import Request
from targetnet.agents.remote.ray_actors import RayActors
from targetnet.agents.remote.remote_envs import RemoteEnvs
from targetnet.agents.remote.transport import InProcess
from targetnet.agents.run.agent_factory import agent_for
from targetnet.agents.run.train import train

_SLEEPING: dict[str, Any] = {
    "env_id": "tests.agents.remote.toy:RemoteToy-v0", "env_kwargs": {"seconds": 0.001},
    "loop": "remote", "actor_pace": "free", "hidden": (64, 64), "batch_size": 64,
    "replay_capacity": 20_000, "learn_start": 500, "learn_period": 16, "final_eval_episodes": 1,
    "updates_per_learn": 1, "loss": "huber", "sync_period": 500, "learning_rate": 1e-3,
    "eval_period": 1_000_000_000, "checkpoint_seconds": 0.0, "env_steps": 8_000,
}  # fmt: skip
_PHASE = 37  # updates that a delivery of the toy makes due: the other rows are resets
# Horgan et al. (2018), section 4.1; Kapturowski et al. (2019), section 2.3.
_APE_X, _R2D2 = 139 / 4, 260.0  # transitions per second of one actor of Atari, each


def measure_sleeping(rounds: int) -> None:
    """Prints the env steps per second of one actor and of two, in turn."""
    speeds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for actors, found in speeds.items():
            ticks: list[tuple[float, int]] = []

            def on_tick(agent: Any, tick: Any, ticks: Any = ticks) -> None:
                if tick.env_step >= 2_000:
                    ticks.append((time.perf_counter(), tick.env_step))

            _train(on_tick, actors=actors)
            (began, first), (ended, last) = ticks[0], ticks[-1]
            found.append((last - first) / (ended - began))
    one, two = (statistics.median(found) for found in speeds.values())
    print(f"1 actor {one:.0f}, 2 actors {two:.0f} env steps/s: {two / one:.2f} times")


def _train(on_tick: Any, **settings: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = DqnConfig(**(_SLEEPING | settings))
        train(config, Path(folder) / "run", on_tick=on_tick, console=None)


def measure_learner(rounds: int) -> None:
    """Prints the time of an update while no actor, two and four are at work."""
    for actors in (0, 2, 4):
        found = []
        for _ in range(rounds):
            with _update_times() as times:
                if actors:
                    _train(None, actors=actors, learn_period=1)
                else:
                    _learn_alone()
            half = times[len(times) // 2 :]
            found.append(sum(t for t, _ in half) / sum(n for _, n in half) * 1e6)
        print(f"{actors} actors: {statistics.median(found):.0f} us per update")


@contextlib.contextmanager
def _update_times() -> Iterator[list[tuple[float, int]]]:
    """Gives a list that gets the seconds and the number of updates of each phase."""
    learn, times = DqnAgent.learn, []

    def timed(agent: DqnAgent, updates: int = 1, **how: Any) -> Any:
        began = time.perf_counter()
        stats = learn(agent, updates, **how)
        times.append((time.perf_counter() - began, updates))
        return stats

    with patch.object(DqnAgent, "learn", timed):
        yield times


def _learn_alone() -> None:
    """Makes updates with no actor, in phases of the size that they have beside actors."""
    config = DqnConfig(**(_SLEEPING | {"actors": 1}))
    envs = RemoteEnvs(config, InProcess(config))
    agent, collector = agent_for(config, envs), Collector(config, 0)
    for number in range(60):
        agent.store(collector.collect(Request(number, 0, 0, {"epsilon": 1.0}), {}).rows)
    for _ in range(100):
        agent.learn(_PHASE)
    for of in (collector, envs, agent):
        of.close()


def measure_ends() -> None:
    """Measures what a delivery costs the learner, and calculates what many actors would."""
    taking = _taking()
    print(
        f"a delivery through Ray takes {taking * 1e6:.0f} us of the learner's time to take and ask"
    )
    cartpole = _storing((4,), "float32")
    frames = _storing((84, 84, 4), "uint8")
    rate = _collecting()
    print(f"storing 51 rows: {cartpole * 1e6:.0f} us of CartPole, {frames * 1e6:.0f} us of frames")
    print(f"an actor of CartPole makes {rate:,.0f} env steps/s here")
    small, large = 4 * (4 * 64 + 64 * 64 + 2 * 64 + 2 + 128), 4 * 1_685_667
    print("| actors | env | rows/s | in, MB/s | weights, per s | out, MB/s | of the learner |")
    print("|---|---|---|---|---|---|---|")
    for name, each, row, weights, store in (
        ("CartPole, as fast as here", rate, 26, small, cartpole),
        ("frames, as fast as Ape-X's actors", _APE_X, 28_234, large, frames),
        ("frames, as fast as R2D2's actors", _R2D2, 28_234, large, frames),
    ):
        for actors in (8, 64, 512):
            rows, deliveries = actors * each, actors * each / 50
            busy = deliveries * (store + taking)
            print(
                f"| {actors} | {name} | {rows:,.0f} | {rows * 51 / 50 * row / 1e6:,.1f} | "
                f"{deliveries:,.0f} | {deliveries * weights / 1e6:,.1f} | {busy:.0%} |"
            )


def _taking() -> float:
    """Seconds of the learner for a delivery of CartPole: to take it, to publish weights, to ask."""
    config = DqnConfig(loop="remote", actors=2, actor_pace="free", hidden=(64, 64))
    pool = ActorPool(RayActors(config, None, 10_000_000), 2, 1)
    weights = _cartpole_weights()
    pool.publish(weights)
    for actor in pool.actors:
        for _ in range(2):
            pool.ask(actor, 0, {"epsilon": 0.0})

    def take_and_ask(_: int) -> None:
        answer, _ = pool.take()
        pool.publish(weights)
        pool.ask(answer.actor, 0, {"epsilon": 0.0})

    # After the pause all have answered: what is left is the learner's own time.
    spent = _median_seconds(take_and_ask, 200, time.process_time, pause=0.03)
    pool.close()
    return spent


def _storing(shape: tuple[int, ...], dtype: str) -> float:
    """Seconds to store a delivery of 50 time steps of one env."""
    config = DqnConfig(hidden=(8,), replay_capacity=5_000, past_states=0, xla=False)
    agent = DqnAgent(config, shape, np.dtype(dtype), 2)
    flags = np.zeros((51, 1), bool)
    rows = {
        "observation": np.zeros((51, 1, *shape), dtype), "action": np.zeros((51, 1), np.int32),
        "reward": np.zeros((51, 1), np.float32), "terminated": flags, "autoreset": flags,
    }  # fmt: skip
    for _ in range(100):  # the first turn of the ring
        agent.store(rows)
    spent = _median_seconds(lambda _: agent.store(rows), 200)
    agent.close()
    return spent


def _collecting() -> float:
    """Env steps per second of one actor of CartPole, half of whose actions are greedy."""
    collector = Collector(DqnConfig(loop="remote", actors=1, hidden=(64, 64)), 0)
    weights = _cartpole_weights()
    spent = _median_seconds(
        lambda number: collector.collect(Request(number, 0, 0, {"epsilon": 0.5}), weights), 100
    )
    collector.close()
    return 50 / spent


def _cartpole_weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"torso/dense_0": (4, 64), "torso/dense_1": (64, 64), "head/q": (64, 2)}
    weights = {f"{n}/w": rng.normal(size=s).astype("f") for n, s in shapes.items()}
    return weights | {f"{n}/b": np.zeros(s[1], "f") for n, s in shapes.items()}


def _median_seconds(
    call: Callable[[int], Any],
    times: int,
    clock: Callable[[], float] = time.perf_counter,
    pause: float = 0.0,
) -> float:
    """The median of calls with 0, 1, 2 and so on, with a pause before each."""
    spent = []
    for number in range(times):
        time.sleep(pause)
        began = clock()
        call(number)
        spent.append(clock() - began)
    return statistics.median(spent)


@dataclass(frozen=True)
class ActorBench:
    """Measure actors, and calculate where they end."""

    sleeping: bool = False
    """Env steps per second of one actor and of two, on an env that sleeps 1 ms per step."""
    learner: bool = False
    """Time of an update beside 0, 2 and 4 actors."""
    ends: bool = False
    """Rows, bytes and weights per second of 8, 64 and 512 actors, and the learner's share."""
    rounds: int = 3
    """How often the first two are measured."""

    def __call__(self) -> None:
        if self.sleeping:
            measure_sleeping(self.rounds)
        if self.learner:
            measure_learner(self.rounds)
        if self.ends:
            measure_ends()


if __name__ == "__main__":
    tyro.cli(ActorBench)()
