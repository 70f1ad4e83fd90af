"""Rewards scaled, then clipped, where they are learned from; returns are the env's own."""

import numpy as np
import pytest

from envs import make_envs
from rl_core.errors import EnvError, EnvNotFinite

GO_ON, TERMINATE = 0, 1
BOTH = pytest.mark.parametrize("vectorization", ["sync", "vector_entry_point"])


def scripted(vectorization="sync", num_envs=1, **kwargs):
    return make_envs("test/Scripted-v0", num_envs, vectorization=vectorization, seed=1, **kwargs)


def played(envs, steps=4):
    """The rewards of an episode of so many steps, [steps, N], and its episodes."""
    N = envs.num_envs
    envs.reset()
    rows = [np.copy(envs.step(np.full(N, GO_ON)).reward) for _ in range(steps - 1)]
    last = envs.step(np.full(N, TERMINATE))
    return np.array([*rows, np.copy(last.reward)]), last.episodes


# The env pays 1, 2, 3, 4: a return of 10.
#     scale  clip  learned from
ROWS = [
    (1.0,    None, [1.0, 2.0, 3.0, 4.0]),
    (0.5,    None, [0.5, 1.0, 1.5, 2.0]),
    (1.0,    2.5,  [1.0, 2.0, 2.5, 2.5]),
    (0.5,    1.25, [0.5, 1.0, 1.25, 1.25]),  # clipped first it would be 0.5, 0.625, 0.625, 0.625
    (3,      7,    [3.0, 6.0, 7.0, 7.0]),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize("num_envs", [1, 2])
@pytest.mark.parametrize(("scale", "clip", "learned"), ROWS)
def test_rewards_are_scaled_and_then_clipped_and_returns_are_raw(
    vectorization, num_envs, scale, clip, learned
):
    envs = scripted(vectorization, num_envs, reward_scale=scale, reward_clip=clip)
    rewards, episodes = played(envs)
    assert rewards.dtype == np.float32
    assert rewards.tolist() == [[reward] * num_envs for reward in learned]
    assert [episode.episode_return for episode in episodes] == [10.0] * num_envs


@BOTH
def test_the_clip_is_the_same_on_both_sides(vectorization):
    envs = scripted(vectorization, env_kwargs={"pay": -3.0}, reward_clip=1.0)
    rewards, (episode,) = played(envs)
    assert rewards.tolist() == [[-1.0]] * 4
    assert episode.episode_return == -12.0


@BOTH
def test_a_reset_row_stays_at_0(vectorization):
    envs = scripted(vectorization, reward_scale=5.0, reward_clip=2.0)
    assert envs.reset().reward[0] == 0.0
    envs.step(np.array([TERMINATE]))
    step = envs.step(np.array([GO_ON]))
    assert (step.autoreset[0], step.reward[0]) == (True, 0.0)


@BOTH
def test_a_reward_too_large_for_float32_is_clipped_not_infinite(vectorization):
    envs = scripted(vectorization, env_kwargs={"pay": 1e300}, reward_scale=1e-299)
    assert played(envs)[0].tolist() == [[10.0]] * 4  # 1e300 * 1e-299


@BOTH
def test_the_scaling_is_rounded_once(vectorization):
    pay = np.float32(0.1)  # 0.1 + 1.5e-9
    envs = scripted(vectorization, env_kwargs={"pay": pay}, reward_scale=1 / 3)
    assert played(envs)[0][0, 0] == np.float32(float(pay) / 3.0)


@BOTH
def test_nan_is_not_clipped_away(vectorization):
    envs = scripted(vectorization, env_kwargs={"pay": np.nan}, reward_clip=1.0)
    with pytest.raises(EnvNotFinite, match="got nan"):
        played(envs)


def test_what_was_clipped_comes_back_the_same():
    envs = scripted(reward_clip=1.5)
    envs.reset()
    for _ in range(3):
        envs.step(np.array([GO_ON]))
    state = envs.state()
    again, problems = scripted(reward_clip=1.5).restore(state)
    assert (problems, again.reward.tolist(), state["lanes"][0]["return"]) == ([], [1.5], 6.0)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["reward_scale", "reward_clip"])
def test_a_scale_or_clip_that_is_no_number_above_0_is_refused(name, value):
    with pytest.raises(EnvError) as refused:
        scripted(**{name: value})
    assert str(refused.value) == f"{name} must be a finite number > 0, got {value}"
