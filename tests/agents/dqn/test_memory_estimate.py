"""The memory an agent is reckoned to need: against the variables that are made, and refusals."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.memory_estimate import needs, network_size, weight_copies
from targetnet.agents.dqn.network import build_network
from targetnet.agents.run.train import train
from targetnet.rl_core.errors import MemoryLimitError
from targetnet.rl_core.machine import Need, check_needs
from targetnet.rl_core.replay import transition_columns

FRAME, PLANES = (84, 84, 4), (10, 10, 6)
NETWORKS = [
    ((4,), {}),
    ((4,), {"hidden": (7, 5), "layer_norm": True}),
    ((4,), {"hidden": ()}),
    ((3, 2), {"dueling": True, "head_hidden": (6,)}),
    ((4,), {"noisy": True, "dueling": True}),
    ((4,), {"head": "categorical", "atoms": 11}),
    ((4,), {"head": "quantile", "quantiles": 13, "dueling": True}),
    ((4,), {"head": "implicit", "head_hidden": (6,)}),
    ((4,), {"head": "fqf", "fractions": 7, "dueling": True}),
    (PLANES, {"network": "minatar"}),
    (PLANES, {"network": "minatar", "layer_norm": True}),
    (FRAME, {"network": "nature"}),
    (FRAME, {"network": "impala"}),
]


@pytest.mark.parametrize(("shape", "settings"), NETWORKS, ids=str)
def test_the_weights_of_a_network_are_those_that_are_made(shape, settings):
    config = DqnConfig(**settings)
    with tf.Graph().as_default(), tf.variable_scope("online"):
        build_network(config, 3)(tf.placeholder(tf.float32, [None, *shape]))
        made = sum(v.shape.num_elements() for v in tf.trainable_variables())
    assert network_size(config, shape, 3).weights == made


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize(
    "settings",
    [
        {"past_states": 0},
        {"past_states": 3, "averaged_targets": 3},
        {"ema_decay": 0.9, "loop": "concurrent"},
    ],
    ids=str,
)
def test_the_copies_of_the_weights_are_those_that_are_made(lab, settings):
    agent = lab.agent(**({"hidden": (50, 50), "updates_per_learn": 1} | settings))
    with agent.engine.session.graph.as_default():
        sizes = {v.op.name: v.shape.num_elements() for v in tf.global_variables()}
    agent.close()
    made = sum(size for name, size in sizes.items() if not name.startswith(("replay/", "streams/")))
    weights = network_size(agent.config, (2,), 3).weights
    gradients, counters = weights, 100
    reckoned = weight_copies(agent.config) * weights - gradients
    assert reckoned <= made <= reckoned + counters


HUGE = 99_999_999_999
REFUSED = [
    ({"hidden": (HUGE,)}, "lower hidden"),
    ({"hidden": (HUGE, HUGE)}, "lower hidden"),
    ({"hidden": (HUGE,), "batch_size": 256}, "lower hidden"),
    ({"hidden": (10**18,)}, "lower hidden"),
    ({"head_hidden": (HUGE,)}, "lower head_hidden"),
    ({"batch_size": 9_999_999_999}, "lower batch_size"),
    ({"past_states": HUGE}, "lower past_states"),
    ({"averaged_targets": HUGE}, "lower averaged_targets"),
    ({"head": "categorical", "atoms": HUGE}, "lower atoms"),
    ({"head": "quantile", "quantiles": HUGE}, "lower quantiles"),
    ({"head": "implicit", "tau_samples": HUGE}, "lower tau_samples"),
    ({"head": "implicit", "tau_samples_acting": HUGE}, "lower tau_samples_acting"),
    ({"head": "fqf", "fractions": HUGE}, "lower fractions"),
    ({"replay_capacity": 10**13}, "lower replay_capacity"),
    ({"recurrent": "gru", "recurrent_units": 10**9}, "lower recurrent_units"),
    ({"rollout": 64 * 10**9}, "lower rollout"),
    ({"network": "somebody:network", "batch_size": 9_999_999_999}, "lower batch_size"),
    ({"num_envs": 10**12}, "lower num_envs"),
    ({"num_envs": 10**12, "vectorization": "async"}, "lower num_envs"),
    ({"num_envs": 10**12, "vectorization": "vector_entry_point"}, "lower num_envs"),
    ({"num_envs": 2**63 - 1}, "lower num_envs"),
    ({"num_envs": 2**63 - 1, "vectorization": "envpool"}, "lower num_envs"),
]


@pytest.mark.parametrize(("settings", "said"), REFUSED, ids=lambda x: str(x)[:60])
def test_what_cannot_fit_is_refused_with_the_numbers_before_anything_is_made(
    tmp_path, settings, said
):
    with pytest.raises(MemoryLimitError) as caught:
        train(DqnConfig(env_id="CartPole-v1", **settings), tmp_path / "run")
    text = str(caught.value)
    assert text.isprintable() and len(text) <= 600 and "the limit is" in text
    assert text.endswith(said)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "config", ["cartpole", "minatar-breakout", "cartpole-rainbow", "cartpole-iqn"]
)
def test_what_the_shipped_configs_need_is_little(config):
    from targetnet.agents.config.files import load_config

    shape = PLANES if "minatar" in config else (4,)
    parts = needs(load_config(config), shape, np.dtype(np.float32), 6)
    assert sum(need.nbytes for need in parts) < 4e9


def test_units_of_a_convolution_in_bfloat16_take_half_a_float():
    exact = DqnConfig(network="nature", onednn=True)
    rounded = DqnConfig(network="nature", onednn=True, compute="bfloat16")
    one, other = (network_size(config, (84, 84, 4), 6) for config in (exact, rounded))
    assert one.weights == other.weights
    assert one.units - other.units == (20 * 20 * 32 + 9 * 9 * 64 + 7 * 7 * 64) // 2


def test_needs_that_fit_one_by_one_may_be_too_much_together():
    parts = [Need("networks", 600, "hidden"), Need("a replay", 500, "replay_capacity")]
    check_needs(parts, limit=1_100)
    with pytest.raises(MemoryLimitError) as caught:
        check_needs(parts, limit=1_000)
    assert str(caught.value) == (
        "this run needs at least 1.1 kB, but the limit is 1 kB (networks 600 B, a replay 500 B); "
        "lower hidden"
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.bool_])
def test_the_rows_of_a_replay_are_those_that_are_made(dtype):
    config = DqnConfig(replay_capacity=1_000)
    made = sum(column.nbytes for column in transition_columns((3, 5), dtype))
    reckoned = needs(config, (3, 5), np.dtype(dtype), 4)[1]
    assert reckoned.nbytes == 1_000 * made
    config = DqnConfig(rollout=32, num_envs=4)
    reckoned = needs(config, (3, 5), np.dtype(dtype), 4)[1]
    assert reckoned.nbytes == 33 * 4 * made and reckoned.lower == "rollout"


def test_a_histogram_is_made_atom_by_atom_and_a_projection_of_each_with_each():
    sizes = {}
    for loss in ("huber", "hl_gauss"):
        config = DqnConfig(head="categorical", loss=loss, atoms=601, batch_size=32, hidden=(8,))
        sizes[loss] = {
            need.what: need.nbytes for need in needs(config, (4,), np.dtype(np.float32), 3)
        }
    apart = {what: sizes["huber"][what] - of for what, of in sizes["hl_gauss"].items()}
    assert sorted(apart.values())[-1] >= 32 * 601**2 * 4 * 0.99
    assert sum(sizes["hl_gauss"].values()) < 32 * 601**2 * 4
