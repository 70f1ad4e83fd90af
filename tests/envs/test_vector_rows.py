"""A vector env's rows and episodes, against a slow twin that looks at one env at a time."""

import numpy as np
import pytest

from targetnet.envs import Episode, Step, make_envs

NUM_ENVS = 7


def twin(actions: np.ndarray, pay: float | None) -> list[Step]:
    """The rows of test/Scripted-v0: one env after the other, nothing kept in arrays."""
    T = len(actions)
    rows = Step(
        observation=np.zeros((T + 1, NUM_ENVS, 1), np.float32),
        reward=np.zeros((T + 1, NUM_ENVS), np.float32),
        terminated=np.zeros((T + 1, NUM_ENVS), bool),
        truncated=np.zeros((T + 1, NUM_ENVS), bool),
        autoreset=np.zeros((T + 1, NUM_ENVS), bool),
        episodes=(),
    )
    ended: list[list[Episode]] = [[] for _ in range(T + 1)]
    for env in range(NUM_ENVS):
        number, length, total, over = -1, 0, 0.0, True
        for t in range(T + 1):
            if over:
                number, length, total, over = number + 1, 0, 0.0, False
                rows.autoreset[t, env] = True
                continue
            action = actions[t - 1, env]
            length += 1
            raw = float(length) if pay is None else pay
            total += raw
            rows.observation[t, env] = length
            rows.reward[t, env] = raw
            rows.terminated[t, env] = action == 1
            rows.truncated[t, env] = action == 2
            over = action > 0
            if over:
                ended[t].append(Episode(env, number, total, length, bool(action == 1)))
    return [
        Step(*(column[t] for column in rows[:5]), tuple(ended[t]))  # in the order of the envs
        for t in range(T + 1)
    ]


@pytest.mark.parametrize("ending", [0.02, 0.5])  # how often an action ends the episode
@pytest.mark.parametrize("pay", [None, np.float32(0.1)])
def test_rows_and_episodes_equal_those_of_one_env_at_a_time(ending, pay):
    rng = np.random.default_rng(0)
    ends = rng.random((1500, NUM_ENVS)) < ending
    actions = np.where(ends, rng.integers(1, 3, ends.shape), 0).astype(np.int32)
    envs = make_envs(
        "test/Scripted-v0",
        NUM_ENVS,
        vectorization="vector_entry_point",
        seed=1,
        env_kwargs={"pay": pay},
    )
    expected = twin(actions, None if pay is None else float(pay))
    for _ in range(2):  # the second time after a reset in the middle of episodes
        step = envs.reset()
        for t, wanted in enumerate(expected):
            step = envs.step(actions[t - 1]) if t else step
            for ours, theirs in zip(step[:5], wanted[:5], strict=True):
                np.testing.assert_array_equal(ours, theirs)
            assert step.episodes == wanted.episodes
    assert sum(len(step.episodes) for step in expected) > 100
