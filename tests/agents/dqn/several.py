"""Several agents of one kind, small, and the same training for each."""

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.compiled import LoopCounts
from targetnet.envs.in_graph.table import make_rules

SMALL = {
    "hidden": (8,), "replay_capacity": 60, "batch_size": 8, "learning_rate": 0.01,
    "xla": False, "num_envs": 2, "past_states": 0, "updates_per_learn": 1,
}  # fmt: skip
KINDS = {
    "scalar": {},
    "averaging": {"ema_decay": 0.9, "averaged_targets": 2, "updates_per_learn": 4},
    "rainbow": {
        "head": "categorical", "v_min": 0.0, "v_max": 9.0, "atoms": 5, "dueling": True,
        "noisy": True, "prioritized": True, "double": True, "n_step": 3, "loss": "huber",
    },
    "ruled": {"sync_growth": 0.2, "sync_fit": 0.9, "sync_fit_updates": 2, "sync_distance": 0.3},
    "chain": {"chain": 3, "refresh_period": 2},
    "chain of heads": {"chain": 3, "chain_torso": "shared", "updates_per_learn": 4},
    "implicit": {"head": "implicit", "tau_samples": 4, "tau_samples_acting": 3},
    "fqf": {"head": "fqf", "fractions": 4, "fraction_learning_rate": 0.01},
    "sgd": {"optimizer": "sgd", "activation": "tanh"},
    "rmsprop": {"optimizer": "rmsprop", "activation": "gelu", "updates_per_learn": 4},
    "adamw": {"optimizer": "adamw", "activation": "elu"},
}  # fmt: skip


def configs(kind, **more):
    """Two seeds, and another sync period."""
    return [
        DqnConfig(**(SMALL | KINDS[kind] | more), seed=seed, sync_period=period)
        for seed, period in [(3, 5), (4, 7)]
    ]


def made(config, **where):
    return DqnAgent(config, (3 * config.frame_stack,), np.float32, 4, **where)


def training(agent, steps=30):
    """Steps that do not depend on the actions, and updates: gives the actions, what was learned."""
    rng, N = np.random.default_rng(0), agent.config.num_envs
    for t in range(steps):
        observation = rng.normal(size=(N, 3)).astype(np.float32)
        reward = rng.normal(size=N).astype(np.float32)
        yield agent.step(observation, reward, np.zeros(N, bool), np.full(N, t % 9 == 0))
        if t > 4:
            # In calls of their own now and then.
            yield agent.learn(4 if t % 5 else 1, stats=True).td_error


def train(agent, steps=30):
    """All that `training` gives."""
    return np.concatenate([*training(agent, steps)])


def become(agent, other):
    """Restores an agent to what another one is now."""
    written = other.state.contents.written()
    begin = max(0, written - other.replay.steps)
    rows = [(begin, other.state.contents.time_steps(begin, written))]
    agent.state.restore(other.state.read(), rows)


# Of agents whose envs are in the graph too.
IN_GRAPH = {"loop": "compiled", "chunk": 20, "env_id": "InGraph/CartPole-v1", "learn_start": 10}


def with_envs(built, config, **how):
    """`built` is the class to build: an agent, or several of them."""
    return built(config, (4,), np.float32, 2, rules=make_rules(IN_GRAPH["env_id"]), **how)


def chunks(agent):
    """Three chunks: gives the digest after each."""
    counts = LoopCounts(*map(np.int64, (0, 0, 0)))
    for _ in range(3):
        counts = agent.chunks.run(counts, IN_GRAPH["chunk"]).counts
        yield agent.state.digest(env_step=int(counts.env_step))
