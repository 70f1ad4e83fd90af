"""The workers of the benchmark learn what they say: against a twin in NumPy, update by update.

A yardstick whose Adam, loss or sync is another one measures something else. The updates of the JAX
scripts run on a stand-in for JAX, and on JAX itself where it is installed.
"""

import functools
import hashlib
import importlib
import importlib.util
import inspect
import json
import math
import os
import runpy
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from unittest.mock import MagicMock

import gymnasium
import numpy as np
import pytest

from targetnet.agents.config.files import load_config
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.envs.env_recipe import EnvRecipe
from targetnet.envs.registry import make_single
from tests.benchmarks import numpy_jax
from tests.benchmarks.scenarios import SCENARIOS

PEERS = Path(__file__).parent / "peers"
YARDSTICKS = Path(__file__).parent / "yardsticks"
ADAM = {"learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}


class Twin:
    """Online and target network of three dense layers, Adam, one mean Huber loss."""

    def __init__(self, weights, **adam):
        self.online = [np.array(w, np.float64) for w in weights]
        self.adam = ADAM | adam
        self.m, self.v = ([np.zeros_like(w) for w in self.online] for _ in range(2))
        self.updates = 0
        self.sync()

    def sync(self):
        self.target = [w.copy() for w in self.online]

    @staticmethod
    def slope(error):
        """Derivative of the loss of an error."""
        return np.clip(error, -1, 1)

    def beside_root(self):
        """Kingma & Ba (2015), the form at the end of section 2: epsilon, beside the raw root."""
        return self.adam["epsilon"]

    @staticmethod
    def forward(weights, x):
        """Activations of every layer; the last are the action values."""
        layers = [np.asarray(x, np.float64)]
        for i in range(0, len(weights), 2):
            y = layers[-1] @ weights[i] + weights[i + 1]
            layers.append(y if i + 2 == len(weights) else np.maximum(y, 0))
        return layers

    def gradients(self, s_tm1, a_tm1, r_t, discount_t, s_t):
        layers, rows = self.forward(self.online, s_tm1), np.arange(len(a_tm1))
        goal = r_t + discount_t * self.forward(self.target, s_t)[-1].max(1)
        error = goal - layers[-1][rows, a_tm1]
        by_output = np.zeros_like(layers[-1])
        by_output[rows, a_tm1] = -self.slope(error) / len(rows)
        found = []
        for i in reversed(range(0, len(self.online), 2)):
            before = layers[i // 2]
            found = [before.T @ by_output, by_output.sum(0), *found]
            by_output = (by_output @ self.online[i].T) * (before > 0)
        return found

    def update(self, *batch):
        self.updates += 1
        b1, b2 = self.adam["beta1"], self.adam["beta2"]
        size = self.adam["learning_rate"] * math.sqrt(1 - b2**self.updates)
        size /= 1 - b1**self.updates
        for i, g in enumerate(self.gradients(*batch)):
            self.m[i] = b1 * self.m[i] + (1 - b1) * g
            self.v[i] = b2 * self.v[i] + (1 - b2) * g**2
            self.online[i] -= size * self.m[i] / (np.sqrt(self.v[i]) + self.beside_root())


class SquaredTwin(Twin):
    """The same with the mean squared error, without a half, and Adam as Optax has it."""

    @staticmethod
    def slope(error):
        return 2 * error

    def beside_root(self):
        """Algorithm 1 of Kingma & Ba: epsilon beside the root of the corrected moment."""
        return self.adam["epsilon"] * math.sqrt(1 - self.adam["beta2"] ** self.updates)


def close(got, wanted, what=""):
    """To a thousandth of a step of Adam's."""
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6, err_msg=str(what))


# The yardsticks: given from outside, and kept as they were given.

SHA_256 = {
    "jax_compiled_dqn.py": "8d362b55951aac4695a2a726ad0ce528ab2177ad712c81e9b1d8705abef53c71",
    "jax_k_updates_dqn.py": "08870cba7ebe2fb8edd238b17dcaf43ec375b8914f6c8a8a5c779850c9c96c6a",
    "jax_per_step_dqn.py": "debef44a380acdfd84b1c160fbdcfb24b2f29b892ef2ef3fb47e3a7797b22432",
}


def test_the_yardsticks_are_as_they_were_given():
    found = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in YARDSTICKS.glob("*.py")}
    assert found == SHA_256


@pytest.fixture
def stand_in(monkeypatch):
    """Has `import jax` give the stand-in."""
    for name, module in numpy_jax.modules().items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture(params=["stand-in", "jax"])
def script(request, monkeypatch):
    """Runs a yardstick's module, on the stand-in and on JAX itself; returns what it defines."""
    if request.param == "stand-in":
        request.getfixturevalue("stand_in")
    elif importlib.util.find_spec("jax") is None:
        pytest.skip("needs JAX, which is no dependency: pip install jax")
    monkeypatch.syspath_prepend(str(YARDSTICKS))
    monkeypatch.delitem(sys.modules, "jax_compiled_dqn", raising=False)
    yield lambda name: runpy.run_path(str(YARDSTICKS / f"{name}.py"))
    sys.modules.pop("jax_compiled_dqn", None)


SHAPES = [(4, 3), (3,), (3, 3), (3,), (3, 2), (2,)]  # small: the stand-in differs number by number


def random_batch(rng):
    """Observations, actions, rewards, discounts, next observations: errors on both sides of 1."""
    B = 16
    discount = 0.99 * (rng.random(B) < 0.7)
    return (
        rng.normal(size=(B, 4)), rng.integers(0, 2, B).astype(np.int32), 2 * rng.normal(size=B),
        discount, rng.normal(size=(B, 4)),
    )  # fmt: skip


def twin_of(rng):
    """One whose target is another network: what it gets wrong must show."""
    twin = Twin([rng.normal(size=shape) for shape in SHAPES])
    twin.target = [w + 0.1 for w in twin.online]
    return twin


def test_the_update_of_the_loop_that_steps_is_adams_on_the_mean_huber_loss(script):
    update, rng = script("jax_per_step_dqn")["update"], np.random.default_rng(0)
    twin = twin_of(rng)
    p, t, count = [w.copy() for w in twin.online], twin.target, np.int32(0)
    m, v = ([np.zeros_like(w) for w in p] for _ in range(2))
    for number in range(6):
        o, a, r, discount, o2 = random_batch(rng)
        p, m, v, count, _ = update(p, t, m, v, np.float32(count), o, a, r, discount / 0.99, o2)
        twin.update(o, a, r, discount, o2)
        close(p, twin.online, f"update {number}")
    assert int(count) == 6


def test_the_update_of_the_loop_with_k_updates_is_the_same_and_syncs_after_500(script):
    names, rng = script("jax_k_updates_dqn"), np.random.default_rng(0)
    twin = twin_of(rng)
    zeros = [np.zeros_like(w) for w in twin.online]
    online = [w.copy() for w in twin.online]
    learner = names["Learner"](online, twin.target, zeros, list(zeros), np.float64(0))
    for number in range(6):
        batch = random_batch(rng)
        learner, _ = names["update"](learner, batch)
        twin.update(*batch)
        close(learner.online, twin.online, f"update {number}")
        close(learner.target, twin.target, f"update {number}")
    before = learner._replace(updates=np.float64(499))
    after, _ = names["update"](before, random_batch(rng))
    close(after.target, after.online)


SETUP = {
    "capacity": 40, "batch_size": 32, "epsilon": 0.5, "learn_start": 20, "learn_period": 4,
    "updates_per_learn": 1, "sync_period": 3, "warm_up": 0, "checker": False, "hidden": [48, 24],
}  # fmt: skip


PRINTED = [
    (
        "jax_per_step_dqn", ("--learn-period", "4"), 9_000,
        '{"updates_done": 2000, "env_steps_per_s": {"median": 4000.0}}',
        (8_000, 2_000, 2.0), ["--learn-period", "4", "--steps", "9000"],
    ),
    (
        "jax_k_updates_dqn", ("--k", "16"), 6_000,
        "24000 env steps/s, 6000 updates, K = 16",
        (6_000, 6_000, 0.25), ["--k", "16", "--steps", "6000"],
    ),
    (
        "jax_compiled_dqn", ("--envs", "16", "--updates", "1"), 50_000,
        '{"updates_done": 4000, "env_steps_per_s": {"median": 128000.0}}',
        (64_000, 4_000, 0.5), ["--envs", "16", "--updates", "1", "--iterations", "3000"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "count", "line", "done", "words"), PRINTED)
def test_what_a_yardstick_prints_is_what_its_worker_tells(
    load, monkeypatch, tmp_path, name, arguments, count, line, done, words
):
    (tmp_path / f"{name}.py").write_text(
        "import json, pathlib, sys\nprint('first')\n"
        f"pathlib.Path({str(tmp_path / 'a')!r}).write_text(json.dumps(sys.argv))\n"
        f"print({line!r})\n"
    )
    worker = load("yardstick_worker")
    monkeypatch.setattr(worker, "YARDSTICKS", tmp_path)
    work = worker.make({"script": name, "arguments": arguments, "checker": False})
    assert work.run(count) == done
    assert json.loads((tmp_path / "a").read_text())[1:] == words


@pytest.mark.parametrize("checker", [True, False])
def test_everybodys_envs_have_gymnasiums_checker_or_nobodys(load, monkeypatch, checker):
    load("protocol").use_checker(checker)

    def checked(env):
        while isinstance(env, gymnasium.Wrapper):
            if isinstance(env, gymnasium.wrappers.PassiveEnvChecker):
                return True
            env = env.env
        return False

    assert checked(gymnasium.make("CartPole-v1")) == checker
    spec = gymnasium.spec("CartPole-v1")
    assert checked(make_single(spec, EnvRecipe({}))) == checker  # ours asks for none


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_products_in_c_are_those_of_an_update(load, tmp_path):
    floors = load("floors_worker")
    made = floors.of_an_update(np.random.default_rng(0))
    products = [floors.product(*each) for each in made]
    floors.in_c(tmp_path)(products, 2)
    for a, b, c in made:
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    # 64 rows; forward 4-64-64-2 in both networks, by the weights, and by the inputs but the first.
    forward = 2 * 64 * (4 * 64 + 64 * 64 + 64 * 2)
    assert floors.flops(made) == 3 * forward + 2 * 64 * (64 * 64 + 64 * 2) == 2_260_992
    assert sorted(c.shape for _, _, c in made) == sorted(
        [(64, 64), (64, 64), (64, 2)] * 2 + [(4, 64), (64, 64), (64, 2)] + [(64, 64), (64, 64)]
    )


def test_a_replay_that_is_said_to_be_full_is_full(load):
    """In pieces of 1,000 rows, of which once only the last was stored."""
    config = DqnConfig(hidden=(3,), replay_capacity=2_500, past_states=0, xla=False)
    agent = DqnAgent(config, (4,), np.float32, 2)
    load("ours_worker").fill(agent, 2)
    assert agent.state.contents.written() == 2_500
    assert agent.rows() == 2_500 - 1 - 24  # not the newest, and none that only led to a reset
    agent.close()


def test_ours_learns_as_the_twin_does(load):
    """Of two transitions, so that a batch is known by how often the first one is in it."""
    setup = {
        "config": {"hidden": (3, 3), "batch_size": 6, "replay_capacity": 3, "xla": False,
                   "loss": "huber", "updates_per_learn": 1,
                   "learning_rate": 1e-3, "sync_period": 2, "discount": 0.9, "learn_start": 0},
        "threads": 1, "shape": [4], "dtype": "float32", "actions": 2, "warm_up": 0,
    }  # fmt: skip
    work = load("ours_worker").learning(setup)
    agent = inspect.getclosurevars(work.run).nonlocals["agent"]
    names = [f"{layer}/{part}" for layer in ("torso/dense_0", "torso/dense_1", "head/q")
             for part in "wb"]  # fmt: skip
    weights = agent.state.weights()
    assert sorted(names) == sorted(weights)
    rows = agent.state.contents.time_steps(0, 3)
    s, a, r = rows["observation"][:, 0], rows["action"][:, 0], rows["reward"][:, 0]
    twins = [Twin([weights[n] for n in names], epsilon=agent.config.adam_epsilon)]
    counts = set()
    for number in range(6):
        assert work.run(1) == (0, 1)
        got = [agent.state.weights()[name] for name in names]
        tried = []
        for first in range(7):
            which = np.repeat([0, 1], [first, 6 - first])
            twin = Twin(twins[-1].online, epsilon=agent.config.adam_epsilon)
            twin.target, twin.updates = twins[-1].target, twins[-1].updates
            twin.m, twin.v = list(twins[-1].m), list(twins[-1].v)
            twin.update(s[which], a[which], r[which + 1], np.full(6, 0.9), s[which + 1])
            tried.append((max(abs(x - y).max() for x, y in zip(got, twin.online, strict=True)),
                          first, twin))  # fmt: skip
        off, first, twin = min(tried, key=lambda one: one[0])
        # Equal to the yardsticks' to 1e-6; later the roundings of Adam's moments add up.
        assert off < (2e-5 if number else 1e-6), f"update {number}: no batch of the two explains it"
        counts.add(first)
        if twin.updates % 2 == 0:
            twin.sync()
        twins.append(twin)
    assert len(counts) > 1  # both are drawn, and not always as often


# The workers written after CleanRL's and PureJaxRL's DQN.


SMALL_SETUP = SETUP | {"batch_size": 8, "capacity": 300, "hidden": (3, 3)}


@pytest.fixture
def small(stand_in, load, monkeypatch):
    """Loads a worker with a small network, whose episodes are cut off after 9 steps."""

    def loaded(name):
        if name == "cleanrl_jax_worker":
            make = functools.partial(gymnasium.make, max_episode_steps=9)
            monkeypatch.setattr(gymnasium, "make", make)
        else:
            monkeypatch.setattr(load(name), "_TIME_LIMIT", 9)
            monkeypatch.setattr(load(name), "CHUNK", 40)
        return load(name)

    return loaded


def noting(function, noted):
    """The same function, of which every result is kept."""

    def keeps(*arguments):
        noted.append(function(*arguments))
        return noted[-1]

    return keeps


def after_in_gymnasium(observation, action):
    """Where CartPole-v1 goes from there, and whether it has fallen."""
    env = make_single(gymnasium.spec("CartPole-v1"), EnvRecipe({}))
    env.reset(seed=0)
    env.unwrapped.state = tuple(np.float64(observation))
    observation, _, terminated, _, _ = env.step(int(action))
    return observation, terminated


def learns_from_gymnasiums_env_as_the_twin_does(begun, batches, syncs_after, learner, cut_is_final):
    """A worker's learner, by the batches that it drew, from the first weights on."""
    twin, cuts = SquaredTwin(begun.online), 0
    for number, batch in enumerate(batches):
        for s_tm1, a_tm1, r_t, final_t, s_t in zip(*batch, strict=True):
            after, terminated = after_in_gymnasium(s_tm1, a_tm1)
            cut = bool(final_t) and not terminated  # by the time limit
            cuts += cut
            assert r_t == 1 and final_t == (terminated or (cut and cut_is_final))
            if not final_t:  # nothing is expected otherwise, whatever is stored
                np.testing.assert_allclose(s_t, after, atol=1e-6)
        twin.update(*batch[:3], 0.99 * (1 - batch.final_t), batch.s_t)
        if number in syncs_after:
            twin.sync()
    close(learner.online, twin.online)
    close(learner.target, twin.target)
    assert max(abs(x - y).max() for x, y in zip(twin.online, twin.target, strict=True)) > 1e-4
    assert bool(cuts) == cut_is_final


def test_cleanrls_worker_learns_from_gymnasiums_env_as_the_twin_does(small, monkeypatch):
    worker, begun, batches = small("cleanrl_jax_worker"), [], []
    parts = worker.jax_dqn
    monkeypatch.setattr(parts, "new_learner", noting(parts.new_learner, begun))
    monkeypatch.setattr(parts.Replay, "sample", noting(parts.Replay.sample, batches))
    work = worker.make(SMALL_SETUP)
    # Updates in env steps 24, 28, ... 116 of those from 0 on, syncs in 24, 36, ... 108.
    assert [work.run(40), work.run(80)] == [(40, 4), (80, 20)] and work.unit == 4
    learner = inspect.getclosurevars(work.run).nonlocals["learner"]
    syncs = range(0, 24, 3)
    learns_from_gymnasiums_env_as_the_twin_does(begun[0], batches, syncs, learner, False)


def test_purejaxrls_worker_learns_from_gymnasiums_env_as_the_twin_does(small, monkeypatch):
    worker, batches = small("purejaxrl_worker"), []
    setup = SMALL_SETUP | {"envs": 3, "learn_period": 6}
    begun = worker.begin(setup)
    monkeypatch.setattr(worker, "sampled", noting(worker.sampled, batches))
    work = worker.make(setup)
    # 40 iterations a run. Updates after 8, 10, ... 80 of them, syncs after 12, 18, ... 78.
    assert [work.run(120), work.run(120)] == [(120, 17), (120, 20)] and work.unit == 120
    carry = inspect.getclosurevars(work.run).nonlocals["carry"]
    syncs = range(2, 37, 3)
    learner = carry.learner
    learns_from_gymnasiums_env_as_the_twin_does(begun.learner, batches, syncs, learner, True)
    # Episodes of the three envs end after 9 steps or before, and each has a key of its own.
    observation, done = carry.rows.observation[:80], carry.rows.done[:80]
    assert all(done[t : t + 9].any(0).all() for t in range(72))
    begins = observation[1:][done[:-1] == 1]
    assert (abs(begins) <= 0.05).all() and len({tuple(row) for row in begins}) == len(begins)


@pytest.mark.parametrize("name", ["cleanrl_jax_worker", "purejaxrl_worker"])
def test_epsilon_falls_until_learning_starts(small, monkeypatch, name):
    """To what it shall be; without learning, and with a network that always wants action 1."""
    worker = small(name)
    parts = worker.jax_dqn

    def wants_1(key, sizes):
        weights = [np.zeros((4, 2)), np.array([0.0, 1.0])]
        return parts.Learner(weights, list(weights), weights, weights, np.array(0))

    monkeypatch.setattr(parts, "new_learner", wants_1)
    monkeypatch.setattr(parts, "update", lambda learner, batch: (learner, 0.0))
    more = {"epsilon": 0.2, "learn_start": 600, "capacity": 1400, "envs": 1}
    work = worker.make(SMALL_SETUP | more)
    work.run(1400)
    variables = inspect.getclosurevars(work.run).nonlocals
    rows = variables["replay"].rows.a_tm1 if "replay" in variables else variables["carry"].rows[1]
    found = [of.mean() for of in (rows[:300], rows[300:600], rows[600:])]
    # Half of the random ones are 1 too: 1 - epsilon / 2, and epsilon falls from 1 to 0.2.
    np.testing.assert_allclose(found, (0.6, 0.8, 0.9), atol=0.08)


PEER_SETUP = SETUP | {"threads": 1, "library": "stable_baselines3", "kind": "train"}


@pytest.fixture
def mocked(monkeypatch):
    """Libraries that note what they are asked for."""
    library = MagicMock()
    for name in (
        "torch", "stable_baselines3", "stable_baselines3.common.env_util",
        "tianshou", "tianshou.algorithm", "tianshou.algorithm.modelfree",
        "tianshou.algorithm.modelfree.c51",
        "tianshou.algorithm.modelfree.dqn", "tianshou.algorithm.modelfree.iqn",
        "tianshou.algorithm.modelfree.qrdqn", "tianshou.algorithm.optim", "tianshou.data",
        "tianshou.env", "tianshou.trainer", "tianshou.utils", "tianshou.utils.net",
        "tianshou.utils.net.common", "tianshou.utils.net.discrete", "tianshou.utils.torch_utils",
    ):  # fmt: skip
        monkeypatch.setitem(sys.modules, name, library)
    return library


# Env steps and updates of a phase, envs; SB3's train_freq and the period of its target, in env
# steps: 3 updates, each for 4 env steps. It divides by the number of envs itself.
PHASES = [(4, 1, 1, 4, 12), (64, 16, 1, 64, 12), (64, 16, 32, 2, 12)]


@pytest.mark.parametrize(("learn_period", "updates", "envs", "train_freq", "target"), PHASES)
def test_stable_baselines3_is_asked_for_the_same_agent(
    mocked, load, learn_period, updates, envs, train_freq, target
):
    phases = {"learn_period": learn_period, "updates_per_learn": updates, "envs": envs}
    load("sb3_worker").make(PEER_SETUP | phases)
    (name, env), settings = mocked.DQN.call_args
    assert name == "MlpPolicy" and settings == {
        "learning_rate": 1e-3, "buffer_size": 40, "learning_starts": 20, "batch_size": 32,
        "train_freq": train_freq, "gradient_steps": updates, "target_update_interval": target,
        "exploration_initial_eps": 0.5, "exploration_final_eps": 0.5,
        "policy_kwargs": {"net_arch": [48, 24]}, "device": "cpu", "seed": 0,
    }  # fmt: skip
    if envs > 1:
        mocked.make_vec_env.assert_called_once_with("CartPole-v1", envs)
        assert env is mocked.make_vec_env.return_value


@pytest.mark.parametrize(("learn_period", "updates"), [(4, 1), (64, 16)])
def test_tianshou_is_asked_for_the_same_agent(mocked, load, learn_period, updates):
    phases = {"learn_period": learn_period, "updates_per_learn": updates}
    load("tianshou_worker").make(PEER_SETUP | phases)
    mocked.AdamOptimizerFactory.assert_called_once_with(lr=1e-3)
    wanted = {"gamma": 0.99, "target_update_freq": 3, "is_double": False, "huber_loss_delta": 1.0}
    assert wanted.items() <= mocked.DQN.call_args.kwargs.items()
    assert mocked.Net.call_args.kwargs["hidden_sizes"] == [48, 24]
    assert mocked.VectorReplayBuffer.call_args.args == (40, 1)
    trainer = mocked.OffPolicyTrainerParams.call_args.kwargs
    assert trainer["update_step_num_gradient_steps_per_sample"] == updates / learn_period
    assert trainer["batch_size"] == 32
    assert trainer["collection_step_num_env_steps"] == learn_period


# Updates alone: the same agent on both sides.


class Member(NamedTuple):
    """One of the family: weights that are learned, and what Tianshou is asked for."""

    weights: int
    agent: str
    settings: dict
    priorities: dict | None = None  # None: its replay is uniform
    n_step: int = 1


# Weights and biases: 4 -> 64 and 64 -> 64 are 320 + 4,160; then 64 -> n is 65 n.
FAMILY = {
    "prioritized-update": Member(
        4_480 + 65 * 2, "DQN", {"is_double": True, "huber_loss_delta": None},
        {"alpha": 0.6, "beta": 0.4},
    ),
    "c51": Member(4_480 + 65 * 2 * 51, "C51", {}),
    "qrdqn": Member(4_480 + 65 * 2 * 32, "QRDQN", {"num_quantiles": 32}),
    # 64 cosines -> 64 besides.
    "iqn": Member(4_480 + 65 * 2 + 65 * 64, "IQN", {}),
    # Two streams 64 -> 64 -> 51 or 102, with a size of its noise for each number.
    "rainbow": Member(
        320 + 2 * (2 * 65 * 64 + 65 * 51 + 65 * 102), "RainbowDQN", {},
        {"alpha": 0.5, "beta": 0.4}, 3,
    ),
}  # fmt: skip


def learner_setup(name, label, **config):
    """What a worker of a scenario is told, as it comes out of the pipe."""
    setup = json.loads(json.dumps(dict(SCENARIOS[name].workers[label].setup)))
    return setup | {"threads": 1, "warm_up": 0, "config": setup["config"] | config}


@pytest.mark.parametrize("name", FAMILY)
def test_tianshou_is_asked_for_the_same_member_of_the_family(mocked, load, name):
    """Of the network, the number of weights is compared below, where Tianshou is installed."""
    member = FAMILY[name]
    work = load("tianshou_worker").make(learner_setup(name, "Tianshou", replay_capacity=250))
    mocked.AdamOptimizerFactory.assert_called_once_with(lr=1e-3)
    settings = getattr(mocked, member.agent).call_args.kwargs
    assert settings == member.settings | {
        "policy": settings["policy"], "optim": mocked.AdamOptimizerFactory.return_value,
        "gamma": 0.99, "n_step_return_horizon": member.n_step, "target_update_freq": 500,
    }  # fmt: skip
    if name == "iqn":
        fractions = {"sample_size": 8, "online_sample_size": 8, "target_sample_size": 8}
        assert fractions.items() <= mocked.IQNPolicy.call_args.kwargs.items()
    kind = "PrioritizedVectorReplayBuffer" if member.priorities else "VectorReplayBuffer"
    buffer = getattr(mocked, kind)
    buffer.assert_called_once_with(250, 1, **member.priorities or {})
    rows = [call.kwargs for call in mocked.Batch.call_args_list]
    assert len(rows) == buffer.return_value.add.call_count == 250
    assert [i for i, row in enumerate(rows) if row["terminated"][0]] == [99, 199]
    assert all((row["obs_next"] == after["obs"]).all() for row, after in pairwise(rows))
    agent = getattr(mocked, member.agent).return_value
    assert work.unit == 1 and not agent.update.called
    work.run(3)
    assert agent.update.call_args_list == 3 * [((buffer.return_value, 64),)]


@pytest.mark.parametrize("name", FAMILY)
def test_ours_is_the_same_member_of_the_family(name):
    import tensorflow.compat.v1 as tf  # after ours, which says how it is to be imported

    from targetnet.agents.dqn.network import build_network

    member = FAMILY[name]
    told = learner_setup(name, "Tianshou")["config"]
    for K in (1, 16):
        config = DqnConfig(**learner_setup(name, f"ours, K = {K}")["config"])
        assert config == DqnConfig(**told | {"updates_per_learn": K})
        with tf.Graph().as_default(), tf.variable_scope("online"):
            build_network(config, 2)(tf.zeros([1, 4]))
            found = sum(v.shape.num_elements() for v in tf.trainable_variables())
        assert found == member.weights
    # Tianshou's agents with distributions are double in any case. It has a Huber loss only at 1,
    # and leaves the weights of prioritized transitions out of the one for means.
    assert config.double and config.huber_delta == 1
    assert (config.loss == "squared") == (member.agent == "DQN")


@pytest.mark.parametrize("name", FAMILY)
def test_tianshous_agent_has_as_many_weights_where_it_is_installed(load, name):
    if importlib.util.find_spec("tianshou") is None:
        pytest.skip("needs Tianshou, which is no dependency")
    config = learner_setup(name, "Tianshou")["config"]
    model = load("tianshou_worker").algorithm_of(config, (4,), 2).policy.model
    found = sum(w.numel() for w in model.parameters() if w.requires_grad)
    assert found == FAMILY[name].weights


def test_the_run_whose_memory_counts_is_the_shipped_config(load):
    scenario = SCENARIOS["memory"]
    worker = scenario.workers[scenario.bars[0].of]
    config = load("ours_worker").config_of({**worker.setup, "threads": 2})
    assert config == load_config("cartpole")
    assert worker.updates == config.updates_per_learn / config.learn_period
    # Its one round ends before the run does.
    assert scenario.fresh and worker.setup["warm_up"] + worker.count < config.env_steps


# One update of the agent that the worker trains, of a given batch; prints the weights after it.
SB3_UPDATE = """
import inspect, json, sys
told = json.load(open(sys.argv[1]))
sys.path.insert(0, told["peers"])
import numpy as np, sb3_worker, torch
from stable_baselines3.common.type_aliases import ReplayBufferSamples
work = sb3_worker.make(told["setup"])
model = inspect.getclosurevars(work.run).nonlocals["model"]
def turned(w):
    return w.T if w.ndim == 2 else w
def put(network, weights):
    for of, w in zip(network.parameters(), weights, strict=True):
        of.data.copy_(turned(torch.tensor(w)))
put(model.q_net, told["online"]); put(model.q_net_target, told["target"])
s, a, r, ended, s_t = (torch.tensor(np.array(x), dtype=torch.float32) for x in told["batch"])
column = lambda x: x[:, None]
batch = ReplayBufferSamples(s, column(a).long(), s_t, column(ended), column(r), None)
model.replay_buffer.sample = lambda *_, **__: batch
model.train(gradient_steps=1, batch_size=len(a))
print(json.dumps([turned(p.detach()).tolist() for p in model.q_net.parameters()]))
"""
SB3_PYTHON = PEERS.parents[2] / "results" / "performance" / "venvs" / "sb3" / "bin" / "python"


@pytest.mark.skipif(not SB3_PYTHON.exists(), reason="no SB3: make performance installs it")
def test_an_update_of_stable_baselines3_is_the_twins(tmp_path):
    """Network, loss, discount and optimizer at once: any other gives other weights."""
    rng = np.random.default_rng(0)
    shapes = [(4, 64), (64,), (64, 64), (64,), (64, 2), (2,)]
    weights = [rng.normal(scale=0.1, size=shape) for shape in shapes]
    # Torch adds epsilon to the corrected root: in the first step that is this much for the twin.
    twin = Twin(weights, epsilon=1e-8 * math.sqrt(1 - ADAM["beta2"]))
    twin.target = [w + 0.01 for w in twin.online]
    s, a, r, discount, s_t = random_batch(rng)
    told = {
        "peers": str(PEERS), "setup": PEER_SETUP | {"warm_up": 8, "hidden": [64, 64]},
        "online": [w.tolist() for w in weights], "target": [w.tolist() for w in twin.target],
        "batch": [x.tolist() for x in (s, a, r, (discount == 0).astype(float), s_t)],
    }  # fmt: skip
    (tmp_path / "told.json").write_text(json.dumps(told))
    command = [str(SB3_PYTHON), "-c", SB3_UPDATE, str(tmp_path / "told.json")]
    environ = {n: v for n, v in os.environ.items() if n != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=environ)
    assert done.returncode == 0, done.stderr
    twin.update(s, a, r, discount, s_t)
    close(json.loads(done.stdout), twin.online)
