"""An agent that is reset is the one that is built for the config, bit for bit."""

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.population import Population
from targetnet.rl_core.errors import ConfigError, Diverged, RlCoreError
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.schedules import Linear
from tests.agents.dqn import several
from tests.agents.dqn.several import IN_GRAPH, SMALL, chunks, made, train, with_envs

pytestmark = pytest.mark.usefixtures("own_agents")

FREEZE = [{"exempt": ["head"], "updates": 7}, {"exempt": ["torso"], "updates": 5}]
ROLLOUT = {
    "rollout": 4, "epochs": 1, "layer_norm": True, "loss": "squared", "batch_size": 8,
    "replay_capacity": 100_000,
}  # fmt: skip
KINDS = several.KINDS | {
    "compiled updates": {
        "xla": True, "updates_per_learn": 4, "past_states": 2, "prioritized": True,
    },
    "recurrent": {
        "recurrent": "gru", "recurrent_units": 3, "sequence_length": 4, "burn_in": 2,
        "num_envs": 2, "past_states": 2,
    },
    "quantile, freezing": {"head": "quantile", "quantiles": 5, "freeze": FREEZE, "past_states": 2},
    "schedules": {
        "epsilon": Linear(start=1.0, end=0.1, steps=40), "past_states": 2,
        "learning_rate": Linear(start=0.01, end=0.001, steps=40), "munchausen": True,
    },
    "own live values": {
        "network": "tests.agents.dqn.own_networks:by_gain", "live": {"gain": {"default": 1.5}},
    },
    "waiting rows": {"learn_period": 20, "on_sync": ["reset_moments"], "num_envs": 1},
    "normalized": {"normalize_observations": True, "past_states": 2},
    "apart": {"loop": "concurrent", "learn_period": 16},
    "rollouts": ROLLOUT,
}  # fmt: skip
QUICK = ("compiled updates", "recurrent", "rainbow")


def config(kind, **more):
    settings = SMALL | KINDS[kind] | {"seed": 3, "sync_period": 5} | more
    if "rollout" in settings:  # which has no target and no choice of updates
        del settings["sync_period"], settings["updates_per_learn"]
    return DqnConfig(**settings)


def use(agent):
    """Does to an agent all that leaves something behind."""
    live = agent.hyperparameters
    agent.step(np.ones((agent.config.num_envs, 3), np.float32), *shown(agent))
    live.env_step = 33
    live.update(discount=0.5, epsilon=0.25)
    if "sync_period" in live:
        live["sync_period"] = 3
        agent.sync()
    if agent.config.past_states:
        agent.state.snapshot()
        agent.state.rewind(1)
    agent.state.load_weights(agent.state.weights())
    agent.weight_resets.reset()
    if agent.config.loop == "concurrent":
        agent.follow()


def shown(agent):
    N = agent.config.num_envs
    return np.ones(N, np.float32), np.zeros(N, bool), np.zeros(N, bool)


def life(agent):
    """All that can be told of an agent that trains: when it begins, meanwhile, and at the end."""
    live, inspected = agent.hyperparameters, agent.inspect()
    first = [agent.state.digest(), agent.updates, live.env_step, live.overrides(), dict(live)]
    first += [inspected, agent.state.replaced, agent.learner.target_age, agent.rows()]
    seen = [train(agent, 18).tolist()]
    use(agent)
    seen += [train(agent, 18).tolist(), [*agent.learner.clock.syncs], agent.state.snapshots]
    agent.learn()
    return [*first, *seen, agent.state.digest(), agent.inspect()]


@pytest.mark.cases(3)
@pytest.mark.parametrize("kind", sorted(KINDS, key=lambda kind: kind not in QUICK))
def test_it_lives_the_life_of_one_that_is_built(kind):
    agent = made(config(kind))
    operations = len(agent.engine.graph.get_operations())
    first = life(agent)
    agent.learn(4)  # which may leave Adam's moments in the form of loops
    agent.reset()
    assert life(agent) == first
    assert len(agent.engine.graph.get_operations()) == operations

    other = {"seed": 4, "discount": 0.8, "epsilon": 0.5}
    agent.reset(config(kind, **other))
    fresh = made(config(kind, **other))
    assert life(agent) == life(fresh) != first
    fresh.close()
    agent.close()


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize("xla", [False, True])
def test_envs_in_the_graph_begin_again_too(xla):
    settings = DqnConfig(**SMALL | IN_GRAPH | {"xla": xla, "num_envs": 2, "seed": 3})
    agent = with_envs(DqnAgent, settings)
    first = [*chunks(agent)]
    agent.reset()
    assert [*chunks(agent)] == first
    other = settings.model_copy(update={"seed": 4, "discount": 0.5})
    agent.reset(other)
    assert [*chunks(agent)] == [*chunks(with_envs(DqnAgent, other))] != first


def test_parts_are_new_ones_and_rows_that_waited_are_gone():
    agent = made(config("waiting rows"))
    live, acting = agent.hyperparameters, agent.acting
    train(agent, 4)  # which wait
    live["epsilon"] = 0.5
    agent.reset()
    assert agent.rows() == 0 and agent.state.contents.written() == 0
    assert agent.hyperparameters is not live and agent.acting is not acting
    assert agent.hyperparameters.source("epsilon") != "override"
    with pytest.raises(RlCoreError, match="nothing to learn from"):
        agent.learn()


def test_one_that_diverged_learns_again():
    agent = made(config("scalar"))
    first = train(agent)
    agent.hyperparameters["learning_rate"] = 1e30
    with pytest.raises(Diverged):
        agent.learn(9)
    agent.reset()
    np.testing.assert_array_equal(train(agent), first)


def test_another_agent_in_the_graph_stays_as_it_is():
    engine = Engine()
    one, other = (made(config("scalar"), engine=engine, scope=f"of/{n}") for n in (1, 2))
    engine.start()
    first = train(one)
    train(other)
    digest = other.state.digest()
    one.reset()
    assert other.state.digest() == digest
    np.testing.assert_array_equal(train(one), first)


def test_what_the_graph_is_built_from_cannot_be_another():
    agent = made(config("scalar"))
    train(agent)
    digest = agent.state.digest()
    with pytest.raises(
        ConfigError,
        match=r"^a reset may change the seed and live values, not hidden: \(8,\) is to be \(4,\)$",
    ):
        agent.reset(config("scalar", hidden=(4,)))
    with pytest.raises(ConfigError, match="not munchausen: False is to be True"):
        agent.reset(config("scalar", munchausen=True))
    assert agent.state.digest() == digest


def test_one_whose_first_weights_cannot_be_drawn_again_is_refused():
    agent = made(config("scalar", network="tests.agents.dqn.own_networks:by_tensorflow"))
    with pytest.raises(RlCoreError, match="draws first weights by TensorFlow's own initializers"):
        agent.reset()


def test_a_member_of_a_population_is_refused():
    population = Population([config("scalar")], (3,), np.float32, 4)
    with pytest.raises(RlCoreError, match="a member of a population cannot be reset"):
        population.members[0].reset()
    population.close()
