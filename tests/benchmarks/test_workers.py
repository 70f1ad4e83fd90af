"""The workers of the benchmark learn what they say: against a twin in NumPy, update by update.

A yardstick whose Adam, loss, sync or sampling is wrong measures something else. The JAX loops run
on a stand-in for JAX, and on JAX itself where it is installed.
"""

import importlib
import importlib.util
import inspect
import math
import sys
from pathlib import Path
from unittest.mock import MagicMock

import gymnasium
import numpy as np
import pytest

from tests.benchmarks import numpy_jax

PEERS = Path(__file__).parent / "peers"
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
        by_output[rows, a_tm1] = -np.clip(error, -1, 1) / len(rows)
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
            # Kingma & Ba (2015), the form at the end of section 2: epsilon beside the raw root.
            root = np.sqrt(self.v[i]) + self.adam["epsilon"]
            self.online[i] -= size * self.m[i] / root


def close(got, wanted, what=""):
    """To a hundredth of a step of Adam's."""
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5, err_msg=str(what))


@pytest.fixture
def load(monkeypatch):
    """Imports a worker as its own interpreter would, and forgets it afterwards."""
    monkeypatch.syspath_prepend(str(PEERS))
    names = [path.stem for path in PEERS.glob("*.py")]
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)


@pytest.fixture(params=["stand-in", "jax"])
def dqn(request, load, monkeypatch):
    """The module that both JAX loops share, with a small network; each step can be looked at."""
    if request.param == "stand-in":
        for name, module in numpy_jax.modules().items():
            monkeypatch.setitem(sys.modules, name, module)
        made = load("jax_dqn")
        monkeypatch.setattr(made, "SHAPES", [(4, 3), (3,), (3, 3), (3,), (3, 2), (2,)])
        yield made
    else:
        if importlib.util.find_spec("jax") is None:
            pytest.skip("needs JAX, which is no dependency: pip install jax")
        import jax

        with jax.disable_jit():
            yield load("jax_dqn")


def random_batch(dqn, rng):
    """Of errors on both sides of the Huber loss's corner."""
    B = 16
    return dqn.Batch(
        rng.normal(size=(B, 4)), rng.integers(0, 2, B).astype(np.int32), 2 * rng.normal(size=B),
        0.99 * (rng.random(B) < 0.7), rng.normal(size=(B, 4)),
    )  # fmt: skip


def test_an_update_is_one_step_of_adam_on_the_mean_huber_loss(dqn):
    rng, learner = np.random.default_rng(0), dqn.initial()
    # The target is another network: what it gets wrong must show.
    learner = learner._replace(target=[w + 0.1 for w in learner.target])
    twin = Twin(learner.online)
    twin.target = [np.array(w, np.float64) for w in learner.target]
    for number in range(6):
        batch = random_batch(dqn, rng)
        learner = dqn.update(learner, batch, 1e-3)
        twin.update(*batch)
        close(learner.online, twin.online, f"update {number}")
        close(learner.target, twin.target, f"update {number}")
    assert int(learner.updates) == 6


class Watched:
    """`update`, which remembers what it was given and what it made of it."""

    def __init__(self, dqn, monkeypatch):
        self.before, self.batches, self.after = [], [], []
        self._update = dqn.update
        monkeypatch.setattr(dqn, "update", self)

    def __call__(self, learner, batch, learning_rate):
        self.before.append(learner)
        self.batches.append([np.array(column) for column in batch])
        self.after.append(self._update(learner, batch, learning_rate))
        return self.after[-1]

    def is_the_twins(self, sync_period):
        """Every update is Adam's, and the target is copied every `sync_period` updates."""
        twin = Twin(self.before[0].online)
        for number, batch in enumerate(self.batches):
            close(self.before[number].target, twin.target, f"target at update {number}")
            twin.update(*batch)
            close(self.after[number].online, twin.online, f"update {number}")
            if twin.updates % sync_period == 0:
                twin.sync()


def led_to(s_tm1, action):
    """What Gymnasium's CartPole makes of it: the next state, and whether the episode is over."""
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset(seed=0)
    env.state = tuple(np.float64(s_tm1))
    s_t, _, terminated, _, _ = env.step(int(action))
    return s_t, terminated


def are_transitions(batches):
    """Every row is a step of CartPole, with its reward and its discount."""
    rows = {row[0].tobytes(): row for batch in batches for row in zip(*batch, strict=True)}
    ends = 0
    for s_tm1, action, reward, discount, s_t in rows.values():
        wanted, terminated = led_to(s_tm1, action)
        np.testing.assert_allclose(s_t, wanted, rtol=1e-4, atol=1e-5)
        assert reward == 1 and discount == pytest.approx(0.0 if terminated else 0.99)
        ends += terminated
    assert 0 < ends < len(rows)
    return rows


SETUP = {
    "capacity": 40, "batch_size": 32, "epsilon": 0.5, "learn_start": 20, "learn_period": 4,
    "sync_period": 3, "warm_up": 0,
}  # fmt: skip


def test_the_jax_loop_that_steps_learns_from_the_last_transitions_and_syncs(dqn, load, monkeypatch):
    watched, seen = Watched(dqn, monkeypatch), []

    class Noted(gymnasium.Wrapper):
        def reset(self, **how):
            self.shown, info = self.env.reset(**how)
            return self.shown, info

        def step(self, action):
            outcome = self.env.step(action)
            seen.append(np.float32(self.shown).tobytes())
            self.shown = outcome[0]
            return outcome

    make = gymnasium.make
    monkeypatch.setattr(gymnasium, "make", lambda name: Noted(make(name)))
    work = load("jax_per_step_worker").make(SETUP)
    assert work.run(100) == (100, 21) and work.unit == 4  # at env steps 20, 24, ..., 100
    monkeypatch.setattr(gymnasium, "make", make)
    watched.is_the_twins(sync_period=3)
    rows = are_transitions(watched.batches)
    for number, batch in enumerate(watched.batches):
        now = 20 + 4 * number
        there = seen[max(0, now - 40) : now]
        drawn = {row.tobytes() for row in batch[0]}
        assert drawn <= set(there)
        assert len(drawn) > 0.4 * min(32, len(there))  # 32 draws of 40: 22 on average
    assert len(rows) > 90  # nearly every one at some time
    greedy = np.mean([row[1] for row in rows.values()])
    assert 0 < greedy < 1


def test_the_compiled_jax_loop_learns_from_what_its_envs_did_and_syncs(dqn, load, monkeypatch):
    worker = load("jax_compiled_worker")
    monkeypatch.setattr(worker, "CHUNK", 20)
    watched = Watched(dqn, monkeypatch)
    work = worker.make(SETUP | {"envs": 2, "updates": 2})
    assert work.run(40) == (40, 40) and work.unit == 40
    assert work.run(40) == (40, 40)  # around the ring
    watched.is_the_twins(sync_period=3)
    rows = are_transitions(watched.batches)
    assert len(rows) > 70
    first = {row.tobytes() for row in watched.batches[2 * 8][0]}
    last = {row.tobytes() for row in watched.batches[-1][0]}
    assert not first & last and len(first) > 9 and len(last) > 14  # overwritten; 18 and 22 drawn


def test_the_compiled_jax_envs_begin_anew_after_an_end_and_after_500_steps(dqn, load):
    env_step = load("jax_compiled_worker").env_step
    s = np.array([[0.0, 0, 0, 0], [2.39, 3.0, 0, 0], [0.0, 0, 0, 0], [0, 0, 0.209, 3.0]])
    age, u = np.array([0, 5, 499, 498]), np.full((4, 4), 0.75)
    s_t, s_next, age, terminated = map(np.array, env_step(s, np.array([1, 1, 0, 1]), age, u))
    for i, action in enumerate([1, 1, 0, 1]):
        wanted, over = led_to(s[i], action)
        np.testing.assert_allclose(s_t[i], wanted, rtol=1e-4, atol=1e-6)
        assert terminated[i] == over
    assert terminated.tolist() == [False, True, False, True] and age.tolist() == [1, 0, 0, 0]
    np.testing.assert_allclose(s_next[0], s_t[0])
    np.testing.assert_allclose(s_next[1:], np.full((3, 4), 0.025), rtol=1e-5)  # 0.75 * 0.1 - 0.05


def test_ours_learns_as_the_twin_does(load):
    """Of two transitions, so that a batch is known by how often the first one is in it."""
    setup = {
        "config": {"hidden": (3, 3), "batch_size": 6, "replay_capacity": 3, "xla": False,
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
        assert off < 2e-5, f"update {number}: no batch of the two explains it"
        counts.add(first)
        if twin.updates % 2 == 0:
            twin.sync()
        twins.append(twin)
    assert len(counts) > 1  # both are drawn, and not always as often


PEER_SETUP = SETUP | {"threads": 1, "warm_up": 0, "library": "stable_baselines3", "kind": "train"}


@pytest.fixture
def mocked(monkeypatch):
    """Libraries that note what they are asked for."""
    library = MagicMock()
    for name in (
        "torch", "stable_baselines3", "tianshou", "tianshou.algorithm",
        "tianshou.algorithm.modelfree", "tianshou.algorithm.modelfree.dqn",
        "tianshou.algorithm.optim", "tianshou.data", "tianshou.env", "tianshou.trainer",
        "tianshou.utils", "tianshou.utils.net", "tianshou.utils.net.common",
    ):  # fmt: skip
        monkeypatch.setitem(sys.modules, name, library)
    return library


def test_stable_baselines3_is_asked_for_the_same_agent(mocked, load):
    load("sb3_worker").make(PEER_SETUP)
    (name, _), settings = mocked.DQN.call_args
    assert name == "MlpPolicy" and settings == {
        "learning_rate": 1e-3, "buffer_size": 40, "learning_starts": 20, "batch_size": 32,
        "train_freq": 4, "gradient_steps": 1, "target_update_interval": 12,  # 3 updates of 4 steps
        "exploration_initial_eps": 0.5, "exploration_final_eps": 0.5,
        "policy_kwargs": {"net_arch": [64, 64]}, "device": "cpu", "seed": 0,
    }  # fmt: skip


def test_tianshou_is_asked_for_the_same_agent(mocked, load):
    load("tianshou_worker").make(PEER_SETUP)
    mocked.AdamOptimizerFactory.assert_called_once_with(lr=1e-3)
    settings = mocked.DQN.call_args.kwargs
    assert settings["optim"] is mocked.AdamOptimizerFactory.return_value
    wanted = {"gamma": 0.99, "target_update_freq": 3, "is_double": False, "huber_loss_delta": 1.0}
    assert wanted.items() <= settings.items()
    assert mocked.Net.call_args.kwargs["hidden_sizes"] == [64, 64]
    assert mocked.VectorReplayBuffer.call_args.args == (40, 1)
    trainer = mocked.OffPolicyTrainerParams.call_args.kwargs
    assert trainer["update_step_num_gradient_steps_per_sample"] == 1 / 4
    assert trainer["batch_size"] == 32 and trainer["collection_step_num_env_steps"] == 4


def test_the_peers_own_learner_is_adams_where_it_is_installed(load):
    """One update of Stable-Baselines3's, with the settings that the worker gives it."""
    if importlib.util.find_spec("stable_baselines3") is None:
        pytest.skip("needs Stable-Baselines3, which is no dependency")
    import torch

    work = load("sb3_worker").make(PEER_SETUP | {"warm_up": 24})
    model = inspect.getclosurevars(work.run).nonlocals["model"]
    optimizer = model.policy.optimizer
    assert isinstance(optimizer, torch.optim.Adam)
    assert optimizer.defaults["lr"] == 1e-3 and optimizer.defaults["betas"] == (0.9, 0.999)
    assert math.isclose(optimizer.defaults["eps"], 1e-8)
