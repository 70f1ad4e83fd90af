"""A network that remembers, inside the agent: against a naive twin that unrolls it row by row."""

import itertools

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.rl_core.errors import BoundsError, ConfigError

L, BURN_IN, UNITS, N = 4, 3, 3, 2
MEMORY = {
    "recurrent": "gru", "recurrent_units": UNITS, "sequence_length": L, "burn_in": BURN_IN,
    "num_envs": N, "hidden": (4,), "batch_size": 5, "replay_capacity": 60, "discount": 0.9,
    "learning_rate": 1e-12, "sync_period": 10_000, "loss": "huber",
}  # fmt: skip


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


def layer(x, weights, name):
    return x @ weights[f"{name}/w"] + weights[f"{name}/b"]


class Twin:
    """Values by a network's weights, one row after the other."""

    def __init__(self, weights, kind):
        self._weights, self.kind = weights, kind
        self.size = {"gru": UNITS, "lstm": 2 * UNITS}[kind]

    def step(self, observation, state):
        """[2], [S] -> values [3], and the state after it."""
        seen = layer(relu(layer(observation, self._weights, "torso/dense_0")), self._weights,
                     "recurrent/input")  # fmt: skip
        h = state[:UNITS]
        before = layer(h, self._weights, "recurrent/state")
        if self.kind == "gru":
            z, r, n = np.split(seen, 3)
            z_h, r_h, n_h = np.split(before, 3)
            z, r = sigmoid(z + z_h), sigmoid(r + r_h)
            state = (1 - z) * np.tanh(n + r * n_h) + z * h
        else:
            i, f, o, new = np.split(seen + before, 4)
            c = sigmoid(f + 1) * state[UNITS:] + sigmoid(i) * np.tanh(new)
            state = np.concatenate([sigmoid(o) * np.tanh(c), c])
        return layer(state[:UNITS], self._weights, "head/q"), state


def filled(lab, steps=26, **settings):
    agent = lab.agent(**MEMORY | settings)
    lab.fill(agent, steps)
    return agent


def values_from(twin, rows, env, begin, end):
    """Values of time steps begin ... end - 1 of an env, from the state stored at `begin`."""
    state = rows["state"][begin, env] if begin >= 0 else np.zeros(twin.size)
    values = {}
    for t in range(max(begin, 0), end):
        if t == 0 or rows["autoreset"][t - 1, env]:
            state = np.zeros(twin.size)
        values[t], state = twin.step(rows["observation"][t, env], state)
    return values


def td_errors(agent, lab, n_step=1, rescale=False):
    """(time step, env) -> the TD errors of the sequence there, 0 where nothing is learned."""
    config, kind = agent.config, agent.config.recurrent
    rows = agent.state.contents.time_steps(0, agent.state.contents.written())
    newest = len(rows["action"]) - 1
    online = Twin(lab.weights(agent, "online"), kind)
    target = Twin(lab.weights(agent, "target"), kind)
    shrink = (lambda x: np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + 1e-3 * x) if rescale else float

    def grow(y):
        if not rescale:
            return y
        y, e = np.float64(y), 1e-3  # the formula takes differences of nearly equal numbers
        return np.sign(y) * (((np.sqrt(1 + 4 * e * (abs(y) + 1 + e)) - 1) / (2 * e)) ** 2 - 1)

    found = {}
    for first in range(newest):
        for env in range(N):
            if rows["autoreset"][first, env]:
                continue
            begin, end = first - BURN_IN, min(first + L + n_step, newest + 1)
            q = values_from(online, rows, env, begin, end)
            q_target = values_from(target, rows, env, begin, end)
            errors = []
            for t in range(first, first + L):
                if t >= newest or rows["autoreset"][t, env]:
                    errors.append(0.0)
                    continue
                reward, discount, at = 0.0, 1.0, t
                for _ in range(n_step):
                    if at >= newest or rows["autoreset"][at, env] or not discount:
                        break
                    reward += discount * rows["reward"][at, env]
                    discount *= 0.0 if rows["terminated"][at, env] else config.discount
                    at += 1
                chosen = (q if config.double else q_target)[at].argmax()
                goal = shrink(reward + discount * grow(q_target[at][chosen]))
                errors.append(goal - q[t][rows["action"][t, env]])
            found[first, env] = np.array(errors), rows["autoreset"][first : first + L, env]
    return found


def learned_of(found, key, newest):
    errors, autoreset = found[key]
    there = np.arange(key[0], key[0] + L) < newest
    return errors[: len(autoreset)][~autoreset & there[: len(autoreset)]]


def _slower(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("gru", {}),
        ("lstm", {"double": True, "n_step": 2}),
        ("gru", {"double": True, "value_rescaling": True}),
        _slower("lstm", {}),
        _slower("gru", {"double": True, "n_step": 2}),
        _slower("lstm", {"double": True, "value_rescaling": True}),
        # These compile.
        _slower("gru", {"xla": True, "updates_per_learn": 2}),
        _slower("lstm", {"xla": True, "updates_per_learn": 2}),
    ],
    ids=str,
)
def test_a_sequences_loss_is_that_of_a_naive_twin(lab, kind, how):
    agent = filled(lab, recurrent=kind, **how)
    # Another target than the online network.
    away = np.random.default_rng(5)
    weights = lab.weights(agent, "target")
    lab.put(agent, "target", {n: w + 0.3 * away.normal(size=w.shape) for n, w in weights.items()})
    found = td_errors(agent, lab, how.get("n_step", 1), how.get("value_rescaling", False))
    newest, seen = agent.state.contents.written() - 1, set()
    for _ in range(6):
        stats = agent.learn(how.get("updates_per_learn", 1), stats=True)
        losses = []
        for errors in stats.td_error.reshape(-1, L):
            key = next(k for k, (of, _) in found.items() if np.allclose(of, errors, atol=2e-5))
            seen.add(key)
            size = np.abs(learned_of(found, key, newest))
            losses.append(np.where(size < 1, size**2 / 2, size - 0.5).mean())
        assert stats.loss == pytest.approx(np.mean(losses), rel=1e-4)
    assert len(seen) > 12 and any(len(learned_of(found, key, newest)) < L for key in seen)


@pytest.mark.thorough
def test_the_priority_mixes_the_largest_and_the_mean_error_of_the_learned_steps(lab):
    agent = filled(lab, prioritized=True, priority_alpha=1.0, priority_beta=0.0)
    found, newest = td_errors(agent, lab), agent.state.contents.written() - 1
    for eta in (0.9, 0.25):
        agent.hyperparameters["priority_eta"] = eta
        agent.learn()
        saved = agent.state.read().variables
        (name,) = (name for name in saved if name.endswith("replay/priority"))
        changed = 0
        for t, env in found:
            size = np.abs(learned_of(found, (t, env), newest))
            wanted = eta * size.max() + (1 - eta) * size.mean()
            changed += saved[name][t * N + env] == pytest.approx(wanted, abs=1e-4)
        assert 2 <= changed <= 6  # those of the batch


@pytest.mark.cases(0)
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_acting_remembers_each_episode_and_stores_what_it_remembered(lab, kind):
    agent = lab.agent(**MEMORY | {"recurrent": kind})
    twin = Twin(lab.weights(agent, "online"), kind)
    rng, states = np.random.default_rng(3), [np.zeros(twin.size)] * N
    begins, playing = np.ones(N, bool), agent.greedy.playing(N)
    for t in range(12):
        shown = rng.normal(size=[N, 2]).astype(np.float32)
        nothing = np.zeros(N, np.float32)
        actions = agent.step(shown, nothing, np.zeros(N, bool), begins, epsilon=0.0)
        np.testing.assert_array_equal(playing(shown, begins, None), actions)
        for env in range(N):
            before = np.zeros(twin.size) if begins[env] else states[env]
            stored = agent.state.contents.time_steps(t, t + 1)["state"][0, env]
            np.testing.assert_allclose(stored, before, atol=1e-6)
            values, states[env] = twin.step(shown[env], before)
            assert actions[env] == values.argmax()
        begins = rng.random(N) < 0.3
    # Without its past an observation is an episode's first.
    first = [twin.step(of, np.zeros(twin.size))[0].argmax() for of in shown]
    np.testing.assert_array_equal(agent.greedy(shown), first)


@pytest.mark.slow
def test_a_rewind_leaves_the_running_episodes_alone(lab):
    agent = filled(lab, past_states=2)
    agent.state.snapshot()
    lab.fill(agent, 3, seed=1)
    remembered = agent.state.read().variables["acting/state"]
    assert np.abs(remembered).max() > 0
    agent.state.rewind()
    np.testing.assert_array_equal(agent.state.read().variables["acting/state"], remembered)


@pytest.mark.slow
def test_n_step_cannot_be_longer_than_sequences_have_room_for(lab):
    agent = filled(lab, n_step=2)
    agent.hyperparameters["n_step"] = 1
    agent.learn()
    with pytest.raises(BoundsError, match=r"n_step must be .* in \[1, 2\], got 3"):
        agent.hyperparameters["n_step"] = 3


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"chain": 2}, "recurrent = 'gru' has one network; leave chain"),
        ({"loop": "remote", "replay_capacity": 9_000}, "actors of loop = 'remote' keep none"),
        (
            {"replay_capacity": 17},
            "at least 18 rows, for burn_in = 3, sequence_length = 4 and n_step up to 1, got 17",
        ),
        ({"recurrent": "gro"}, "gru"),
        ({"value_rescaling": True, "head": "quantile"}, "value_rescaling is of expected returns"),
        ({"value_rescaling": True, "munchausen": True}, "leave munchausen out"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(settings, line):
    with pytest.raises(ConfigError, match=line):
        DqnConfig(**MEMORY | settings)


def test_rollouts_have_no_sequences():
    with pytest.raises(ConfigError, match="learns from a replay of sequences; leave rollout out"):
        DqnConfig(rollout=10, num_envs=2, batch_size=20, recurrent="lstm")


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        {"head": "quantile", "quantiles": 5},
        {"noisy": True, "dueling": True, "averaged_targets": 2, "ema_decay": 0.9},
        {"layer_norm": True, "frame_stack": 2},
        _slower({"head": "categorical"}),
        _slower({"munchausen": True}),
        _slower({"head": "implicit", "tau_samples": 4, "tau_samples_acting": 4, "double": True}),
        _slower({"head": "fqf", "fractions": 4, "double": True, "prioritized": True}),
        _slower({"online_weight": 0.5, "functional_weight": 0.1, "proximal_weight": 0.01}),
        _slower({"boltzmann": True}),
        _slower({"cql_weight": 0.5}),
    ],
    ids=str,
)
def test_it_goes_with_the_family(lab, how):
    agent = filled(lab, **how | {"learning_rate": 0.01})
    before = lab.weights(agent, "online")
    for _ in range(3):
        stats = agent.learn(2, stats=True)
    assert np.isfinite(stats.loss) and stats.td_error.shape == (5 * L,)
    moved = {n for n, w in lab.weights(agent, "online").items() if not np.array_equal(w, before[n])}
    assert {"recurrent/input/w", "recurrent/state/w", "torso/dense_0/w"} <= moved


@pytest.mark.slow  # the parts have tests of their own
def test_actions_of_several_numbers_remember_too(lab):
    config = lab.config(**MEMORY | {"learning_rate": 0.01})
    agent = DqnAgent(config, (2,), np.float32, 5, branches=(3, 2))
    lab.fill(agent, 26)
    before = agent.state.weights()
    stats = agent.learn(2, stats=True)
    assert np.isfinite(stats.loss) and stats.td_error.shape == (5 * L, 2)
    assert not np.array_equal(
        agent.state.weights()["recurrent/state/w"], before["recurrent/state/w"]
    )
    rows = agent.state.contents.time_steps(0, 5)
    assert rows["action"].shape == (5, N, 2) and rows["state"].shape == (5, N, UNITS)


@pytest.mark.slow
def test_units_of_the_head_are_scored_by_what_was_remembered(lab):
    """As if each row began an episode, units that depend on memory would look dormant."""
    agent = filled(lab, head_hidden=(UNITS,), recurrent="gru")
    lab.put(agent, "online", {"head/dense_0/b": np.full(UNITS, 3)})  # all of them are awake
    observed, remembered = agent.learner.gradients.shown()
    ((name, given),) = [of for of in agent.weight_resets._given().items() if "/head/" in of[0]]
    weights = lab.weights(agent, "online")
    twin = Twin(weights, "gru")
    after = [twin.step(*of)[1] for of in zip(observed, remembered, strict=True)]
    wanted = relu(layer(np.array(after), weights, name.removeprefix("online/")))
    np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-6)
    assert remembered.any() and (given > 0).all()


def test_units_are_scored_by_the_steps_that_are_learned_from(lab):
    """Beyond the newest row memory may hold anything, which is in no checkpoint."""
    agent = filled(lab)
    contents = agent.state.contents
    rows, newest = contents.time_steps(0, contents.written()), contents.written() - 1
    known = {}
    for t, env in itertools.product(range(newest), range(N)):
        if not rows["autoreset"][t, env]:
            state = rows["state"][t, env].tobytes()
            known.setdefault(rows["observation"][t, env].tobytes(), set()).add(state)
    for _ in range(8):
        observed, remembered = agent.weight_resets._learner.gradients.shown()
        assert {of.tobytes() for of in observed} <= known.keys()
        # The state that acting had before each of these, and not zeros.
        assert all(
            m.tobytes() in known[o.tobytes()] for o, m in zip(observed, remembered, strict=True)
        )
        assert remembered.any()
        assert 0 < len(observed) <= 5 * L
        agent.learn(1)


def test_more_updates_of_a_phase_than_a_call_can_make_are_refused():
    with pytest.raises(ConfigError, match=r"updates_per_learn must be .* in \[1, 1e\+06\]"):
        DqnConfig(updates_per_learn=3_000_000_000)


def test_steps_that_are_longer_than_the_replay_are_refused():
    with pytest.raises(ConfigError, match=r"at least 1,000,\d+ rows, .* n_step up to 1,000,000"):
        DqnConfig(recurrent="gru", n_step=1_000_000, replay_capacity=1_000)
