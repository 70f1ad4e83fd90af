"""What runs learn from: each mask belongs to the newest frame of the observation beside it."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.train import train
from targetnet.rl_core.replay import NStepTransitions, StoredSequences
from tests.agents.signals import legal_of, length_of, shown_at, told_by

STACK, N_STEP, DISCOUNT = 3, 3, 0.5
SHORT = {
    "env_id": "tests.agents.signals:Signals-v0", "env_kwargs": {"masks": True},
    "env_steps": 300, "frame_stack": STACK, "n_step": N_STEP, "discount": DISCOUNT,
    "hidden": (8,), "batch_size": 8, "replay_capacity": 60, "learn_start": 10,
    "updates_per_learn": 1,
    "learn_period": 2,
    "learning_rate": 0.01, "sync_period": 20, "log_period": 200, "eval_period": 1_000,
    "final_eval_episodes": 1, "past_states": 0, "xla": False, "epsilon": 0.5,
}  # fmt: skip
SEQUENCES = {
    "recurrent": "gru", "recurrent_units": 4, "sequence_length": 3, "burn_in": 1, "learn_period": 6,
    "env_steps": 220, "replay_capacity": 50,
}  # fmt: skip
KINDS = {
    "three envs": {"num_envs": 3},
    "prioritized": {"prioritized": True},
    "concurrent": {"loop": "concurrent", "learn_period": 9, "num_envs": 2},
    "in processes": {"num_envs": 2, "vectorization": "async"},
    "actors": {"loop": "remote", "actors": 2, "actor_steps": 8},
}
SLOW = ("prioritized", "in processes")


FIELDS = ("s_tm1", "a_tm1", "r_t", "discount_t", "s_t", "legal_tm1", "legal_t")


@pytest.fixture
def record(own_agents, monkeypatch):
    """Has a kind of items tell what its batches are; returns the list that they come into."""

    def wrap(kind, told_of, through):
        gather, seen = kind.gather, []

        def gathering(self, row, weight):
            batch = gather(self, row, weight)
            tell = tf.numpy_function(lambda *all_of: seen.append(all_of), told_of(batch), [])
            with tf.control_dependencies([tell]):
                return batch._replace(**{through: tf.identity(getattr(batch, through))})

        monkeypatch.setattr(kind, "gather", gathering)
        return seen

    return wrap


def told_of_transitions(batch):
    return [getattr(batch, name) for name in FIELDS]


def told_of_sequences(batch):
    """Of the steps that are learned from; and what their sequences show there."""
    B, L = batch.learned.shape
    learned = tf.reshape(batch.learned, [-1])
    sources = tf.tile(np.arange(batch.first, batch.first + L, dtype=np.int32)[np.newaxis], [B, 1])
    within = [
        tf.gather(batch.observation, at, axis=1, batch_dims=1)
        for at in (sources, batch.destination)
    ]
    told = [*told_of_transitions(batch.steps), *(tf.reshape(x, [B * L, -1]) for x in within)]
    return [tf.boolean_mask(x, learned) for x in told]


def stacks_at(number, step):
    """What is shown at these steps: [M, STACK * 2], zeros before an episode's first."""
    frames = []
    for earlier in reversed(range(STACK)):
        there = (step >= earlier)[:, np.newaxis]
        frames.append(np.where(there, shown_at(number, step - earlier), 0))
    return np.concatenate(frames, axis=-1)


def require_right(s_tm1, a_tm1, r_t, discount_t, s_t, legal_tm1, legal_t, *within):
    """Returns numbers and steps of the sources, and which transitions are shorter than could be."""
    (number, step), (same, later) = (told_by(s[:, -2:]) for s in (s_tm1, s_t))
    np.testing.assert_array_equal(same, number)
    np.testing.assert_array_equal(s_tm1, stacks_at(number, step))
    np.testing.assert_array_equal(s_t, stacks_at(number, later))
    np.testing.assert_array_equal(legal_tm1, legal_of(number, step))
    np.testing.assert_array_equal(legal_t, legal_of(number, later))
    assert legal_tm1[np.arange(len(a_tm1)), a_tm1].all()
    span, left = later - step, length_of(number) - step
    assert (span >= 1).all() and (span <= np.minimum(N_STEP, left)).all()
    terminated = (span == left) & (number % 2 == 1)
    np.testing.assert_array_equal(discount_t, np.where(terminated, 0, np.float32(DISCOUNT) ** span))
    first_paid = a_tm1 == legal_of(number, step).argmax(axis=1)
    np.testing.assert_array_equal(r_t >= 1, first_paid)
    for shown, wanted in zip(within, (s_tm1, s_t), strict=False):
        np.testing.assert_array_equal(shown, wanted)
    return number, step, span < np.minimum(N_STEP, left)


def require_all_right(seen):
    """Checks all batches, which must be of several times around the ring."""
    found = [require_right(*batch) for batch in seen]
    number, step, shorter = (np.concatenate(of) for of in zip(*found, strict=True))
    # The newest row's own outcome is not known yet, and steps to it are as long as they can be.
    assert 0 < shorter.mean() < 0.4
    assert len(set(number.tolist())) > 40 and (step == 0).any() and (step >= STACK).any()


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.slow) if k in SLOW else k for k in KINDS]
)
def test_the_mask_of_each_observation_is_that_of_its_newest_frame(kind, record, tmp_path):
    seen = record(NStepTransitions, told_of_transitions, "s_tm1")
    how = {"console": None} | ({"ray": "off"} if KINDS[kind].get("loop") == "remote" else {})
    outcome = train(DqnConfig(**SHORT | KINDS[kind]), tmp_path / "run", **how)
    assert len(seen) == outcome.updates > 30
    require_all_right(seen)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [{"num_envs": 2}, pytest.param({"loop": "concurrent"}, marks=pytest.mark.slow)],
    ids=["plain", "concurrent"],
)
def test_of_sequences_too(more, record, tmp_path):
    seen = record(StoredSequences, told_of_sequences, "observation")
    outcome = train(DqnConfig(**SHORT | SEQUENCES | more), tmp_path / "run", console=None)
    assert len(seen) == outcome.updates > 30
    require_all_right(seen)
