"""The command that measures actors, and calculates where they end.

    python -m tests.benchmarks.actors --sleeping    env steps of one actor and of two, on an env
                                                    that sleeps 1 ms per step
    python -m tests.benchmarks.actors --learner     the learner's speed beside 0, 2 and 4 actors
    python -m tests.benchmarks.actors --ends        rows, bytes and weights per second of 8, 64 and
                                                    512 actors, and the share of the learner's time
                                                    that they take

The actors are Ray's, on this machine.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

_SLEEPING: dict[str, Any] = {
    "env_id": "tests.agents.remote.toy:RemoteToy-v0", "env_kwargs": {"seconds": 0.001},
    "loop": "remote", "actor_pace": "free", "hidden": (64, 64), "batch_size": 64,
    "replay_capacity": 20_000, "learn_start": 500, "learn_period": 16, "final_eval_episodes": 1,
    "updates_per_learn": 1, "loss": "huber", "sync_period": 500, "learning_rate": 1e-3,
    "eval_period": 1_000_000_000, "checkpoint_seconds": 0.0,
}  # fmt: skip
_FRAMES = (84, 84, 4)
# Horgan et al. (2018), section 4.1; Kapturowski et al. (2019), section 2.3.
_APE_X, _R2D2 = 139 / 4, 260.0  # transitions per second of one actor of Atari, each


class _Clock:
    """Times a run from one env step to another, and its updates.

    Args:
      first, last: the env steps.
    """

    def __init__(self, first: int, last: int) -> None:
        self._first, self._last = first, last
        self._began: tuple[float, int, int] | None = None
        self.env_steps_per_second = self.updates_per_second = 0.0

    def on_tick(self, agent: Any, tick: Any) -> None:
        now = time.perf_counter(), tick.env_step, agent.updates
        if self._began is None and tick.env_step >= self._first:
            self._began = now
        if self._began and tick.env_step <= self._last and now[0] > self._began[0]:
            seconds = now[0] - self._began[0]
            self.env_steps_per_second = (now[1] - self._began[1]) / seconds
            self.updates_per_second = (now[2] - self._began[2]) / seconds


def _trained(on_tick: Any, **settings: Any) -> None:
    from targetnet.agents.config.model import DqnConfig
    from targetnet.agents.run.train import train

    with tempfile.TemporaryDirectory() as folder:
        config = DqnConfig(**(_SLEEPING | settings))
        train(config, Path(folder) / "run", on_tick=on_tick, console=None)


def sleeping(rounds: int) -> None:
    """Prints the env steps per second of one actor and of two, in turn."""
    speeds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for actors, found in speeds.items():
            clock = _Clock(2_000, 8_000)
            _trained(clock.on_tick, actors=actors, env_steps=8_000)
            found.append(clock.env_steps_per_second)
    one, two = (statistics.median(found) for found in speeds.values())
    print(f"1 actor {one:.0f}, 2 actors {two:.0f} env steps/s: {two / one:.2f} times")


def learner(rounds: int) -> None:
    """Prints the time of an update while no actor, two and four are at work."""
    from targetnet.agents.dqn.agent import DqnAgent

    learn = DqnAgent.learn
    for actors in (2, 4):
        found = []
        for _ in range(rounds):
            times: list[tuple[float, int]] = []

            def timed(agent: Any, updates: int = 1, *, into: Any = times, **how: Any) -> Any:
                began = time.perf_counter()
                stats = learn(agent, updates, **how)
                into.append((time.perf_counter() - began, updates))
                return stats

            DqnAgent.learn = timed  # type: ignore[method-assign]
            try:
                _trained(None, actors=actors, env_steps=8_000, learn_period=1)
            finally:
                DqnAgent.learn = learn  # type: ignore[method-assign]
            found.append(_of_an_update(times))
        print(f"{actors} actors: {statistics.median(found):.0f} us per update")
    print(f"0 actors: {statistics.median(_alone() for _ in range(rounds)):.0f} us per update")


def _of_an_update(times: list[tuple[float, int]]) -> float:
    """Microseconds of an update, of the second half of the phases."""
    half = times[len(times) // 2 :]
    return sum(t for t, _ in half) / sum(n for _, n in half) * 1e6


def _alone() -> float:
    """Microseconds of an update with no actor, in phases of the same size."""
    from targetnet.agents.config.model import DqnConfig
    from targetnet.agents.remote.remote_envs import RemoteEnvs
    from targetnet.agents.remote.transport import InProcess
    from targetnet.agents.run.agent_factory import agent_for

    config = DqnConfig(**(_SLEEPING | {"actors": 1}))
    envs = RemoteEnvs(config, InProcess(config))
    agent = agent_for(config, envs)
    for delivery in _deliveries(config, 60):
        agent.store(delivery.rows)
    times = []
    for _ in range(100):
        began = time.perf_counter()
        agent.learn(37)  # as many as a delivery of the toy makes due: the rest are resets
        times.append((time.perf_counter() - began, 37))
    envs.close()
    agent.close()
    return _of_an_update(times)


def _deliveries(config: Any, count: int) -> list[Any]:
    from targetnet.agents.remote.collector import Collector
    from targetnet.agents.remote.deliveries import Request

    collector = Collector(config, 0)
    try:
        return [collector.collect(Request(k, 0, 0, {"epsilon": 1.0}), {}) for k in range(count)]
    finally:
        collector.close()


def ends() -> None:
    """Measures what a delivery costs the learner, and calculates what many actors would."""
    taking = _taking()
    print(
        f"a delivery through Ray takes {taking * 1e6:.0f} us of the learner's time to take and ask"
    )
    cartpole = _storing((4,), "float32")
    frames = _storing(_FRAMES, "uint8")
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
    import numpy as np

    from targetnet.agents.config.model import DqnConfig
    from targetnet.agents.remote.actor_pool import ActorPool
    from targetnet.agents.remote.ray_actors import RayActors

    config = DqnConfig(loop="remote", actors=2, actor_pace="free", hidden=(64, 64))
    pool = ActorPool(RayActors(config, None, 10_000_000), 2, 1)
    rng = np.random.default_rng(0)
    shapes = {"torso/dense_0": (4, 64), "torso/dense_1": (64, 64), "head/q": (64, 2)}
    weights = {f"{n}/w": rng.normal(size=s).astype("f") for n, s in shapes.items()}
    weights |= {f"{n}/b": np.zeros(s[1], "f") for n, s in shapes.items()}
    pool.publish(weights)
    for actor in pool.actors:
        for _ in range(2):
            pool.ask(actor, 0, {"epsilon": 0.0})
    spent = []
    for _ in range(200):
        time.sleep(0.03)  # all have answered: what is left is the learner's own time
        began = time.process_time()
        answer, _ = pool.take()
        pool.publish(weights)
        pool.ask(answer.actor, 0, {"epsilon": 0.0})
        spent.append(time.process_time() - began)
    pool.close()
    return statistics.median(spent)


def _storing(shape: tuple[int, ...], dtype: str) -> float:
    """Seconds to store a delivery of 50 time steps of one env."""
    import numpy as np

    from targetnet.agents.config.model import DqnConfig
    from targetnet.agents.dqn.agent import DqnAgent

    config = DqnConfig(hidden=(8,), replay_capacity=5_000, past_states=0, xla=False)
    agent = DqnAgent(config, shape, np.dtype(dtype), 2)
    flags = np.zeros((51, 1), bool)
    rows = {
        "observation": np.zeros((51, 1, *shape), dtype), "action": np.zeros((51, 1), np.int32),
        "reward": np.zeros((51, 1), np.float32), "terminated": flags, "autoreset": flags,
    }  # fmt: skip
    spent = []
    for _ in range(300):
        began = time.perf_counter()
        agent.store(rows)
        spent.append(time.perf_counter() - began)
    agent.close()
    return statistics.median(spent[100:])  # from the second turn of the ring on


def _collecting() -> float:
    """Env steps per second of one actor of CartPole, half of whose actions are greedy."""
    import numpy as np

    from targetnet.agents.config.model import DqnConfig
    from targetnet.agents.remote.collector import Collector
    from targetnet.agents.remote.deliveries import Request

    config = DqnConfig(loop="remote", actors=1, hidden=(64, 64))
    collector = Collector(config, 0)
    rng = np.random.default_rng(0)
    shapes = {"torso/dense_0": (4, 64), "torso/dense_1": (64, 64), "head/q": (64, 2)}
    weights = {f"{n}/w": rng.normal(size=s).astype("f") for n, s in shapes.items()}
    weights |= {f"{n}/b": np.zeros(s[1], "f") for n, s in shapes.items()}
    spent = []
    for number in range(100):
        began = time.perf_counter()
        collector.collect(Request(number, 0, 0, {"epsilon": 0.5}), weights)
        spent.append(time.perf_counter() - began)
    collector.close()
    return 50 / statistics.median(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("sleeping", "learner", "ends"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    every = not (asked.sleeping or asked.learner or asked.ends)
    if asked.sleeping or every:
        sleeping(asked.rounds)
    if asked.learner or every:
        learner(asked.rounds)
    if asked.ends or every:
        ends()


if __name__ == "__main__":
    main()
