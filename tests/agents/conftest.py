"""Small agents, looked at from outside: their weights by scope, rows to learn from."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.run.checkpoints import Checkpoints
from targetnet.rl_core.graph.scopes import variables_in
from tests.agents.pool import POOL, PooledRun, lent_for

SMALL = {
    "hidden": (8,),
    "replay_capacity": 60,
    "batch_size": 8,
    "learn_start": 0,
    "learning_rate": 0.01,
    "loss": "huber",
    "epsilon": 1.0,
    "past_states": 0,  # a fifth of what building costs
    "xla": False,  # the loop without its compilation; few tests need both
}


@pytest.fixture(scope="session", autouse=True)
def pool():
    """Lends the agents of `lab.agent` and of runs while it is open."""
    train = "targetnet.agents.run.train"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{train}.agent_for", lent_for)
        patch.setattr(f"{train}.Run", PooledRun)
        yield POOL


@pytest.fixture(autouse=True)
def pooled_agents(pool):
    """Agents that a test makes are lent to it; those of wider fixtures are built for them."""
    with pool.open():
        yield
        pool.take_back()


@pytest.fixture
def own_agents(pooled_agents, pool):
    """Agents that this test makes are built for it."""
    with pool.open(False):
        yield


@pytest.fixture
def none_left_out(monkeypatch):
    """On a slow disk too every checkpoint is taken, and none is due while one is being written."""
    take = Checkpoints.take
    monkeypatch.setattr(
        Checkpoints, "take", lambda *args, **how: take(*args, **how | {"must": True})
    )


class Lab:
    """What tests do with an agent of two-number observations and three actions."""

    _used: ClassVar[dict[str, DqnAgent]] = {}

    @staticmethod
    def config(**settings: Any) -> DqnConfig:
        hard = {} if settings.get("rollout") else {"sync_period": 500, "updates_per_learn": 1}
        return DqnConfig(**(SMALL | hard | settings))

    @staticmethod
    def agent(**settings: Any) -> DqnAgent:
        return POOL.agent(Lab.config(**settings), (2,), np.float32, 3)

    @staticmethod
    def kept(**settings: Any) -> DqnAgent:
        """One that outlives the test that makes it."""
        with POOL.open(False):
            return Lab.agent(**settings)

    @staticmethod
    def weights(agent: DqnAgent, scope: str) -> dict[str, np.ndarray]:
        with agent.engine.session.graph.as_default():
            variables = variables_in(scope)
        # Copies, because what is fetched may be the variable's own memory.
        return {name: value.copy() for name, value in agent.engine.run(variables).items()}

    @staticmethod
    def put(agent: DqnAgent, scope: str, weights: dict[str, Any]) -> None:
        with agent.engine.session.graph.as_default():
            for name, variable in variables_in(scope).items():
                if name in weights:
                    variable.load(np.float32(weights[name]), agent.engine.session)

    @staticmethod
    def operations(agent: DqnAgent) -> int:
        return len(agent.engine.session.graph.get_operations())

    @staticmethod
    def step(
        agent: DqnAgent,
        observation: Any,
        reward: Any = 0.0,
        terminated: bool = False,
        autoreset: bool = False,
        epsilon: float | None = None,
    ) -> np.ndarray:
        """One row of all envs alike."""
        N = agent.config.num_envs
        rows = np.full((N, 2), observation, np.float32)
        reward = np.full(N, reward, np.float32)
        return agent.step(rows, reward, np.full(N, terminated), np.full(N, autoreset), epsilon)

    @staticmethod
    def fill(agent: DqnAgent, steps: int = 50, seed: int = 0) -> list[np.ndarray]:
        """Random rows with ends of both kinds; returns the actions."""
        rng = np.random.default_rng(seed)
        N = agent.config.num_envs
        autoreset = np.ones(N, bool)
        actions = []
        for _ in range(steps):
            observation = rng.normal(size=(N, 2)).astype(np.float32)
            reward = rng.normal(size=N).astype(np.float32)
            ended = (rng.random(N) < 0.2) & ~autoreset
            terminated = ended & (rng.random(N) < 0.5)
            actions.append(agent.step(observation, reward, terminated, autoreset))
            autoreset = ended
        return actions

    @staticmethod
    def filled(**settings: Any) -> DqnAgent:
        agent = Lab.agent(**settings)
        Lab.fill(agent)
        return agent

    @staticmethod
    def used(**settings: Any) -> DqnAgent:
        """A filled agent that tests share, because building one takes a second.

        Its live values are those of the config and its target is fresh, but it has learned
        something before.
        """
        key = repr(settings)
        if key not in Lab._used:
            Lab._used[key] = Lab.kept(**settings)
            Lab.fill(Lab._used[key])
        agent = Lab._used[key]
        for name in agent.hyperparameters:
            agent.hyperparameters[name] = "auto"
        agent.hyperparameters.env_step = 0
        agent.learner.freeze.position = (0, 0)
        agent.sync()
        return agent

    @staticmethod
    def same(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
        """Whether two sets of weights are the same bits."""
        assert first.keys() == second.keys() and first
        return all(np.array_equal(first[name], second[name]) for name in first)

    @staticmethod
    def block(weights: dict[str, np.ndarray], block: str) -> dict[str, np.ndarray]:
        return {name: value for name, value in weights.items() if name.startswith(block + "/")}


@pytest.fixture(scope="session")
def lab() -> type[Lab]:
    return Lab


@pytest.fixture(scope="session")
def chi_square() -> Callable[[Any], float]:
    """Of counts that should all be the same."""

    def statistic(counts: Any) -> float:
        expected = np.sum(counts) / len(counts)
        return float(np.sum((np.asarray(counts) - expected) ** 2 / expected))

    return statistic
