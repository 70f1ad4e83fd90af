"""The recorder keeps exactly the steps that an env made, in the env's own form."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Text, Tuple

from targetnet.envs.masks import IN_INFO
from targetnet.envs.recorder import Recorder

SPACE = Dict({
    "numbers": Box(-np.inf, np.inf, (2,), np.float64),
    "places": Tuple((Discrete(9), Box(0, 255, (3,), np.uint8))),
    "says": Text(9),
})  # fmt: skip


class Reused(gym.Env):
    """Shows the number of the step, always in the same arrays; the action says how it ends."""

    observation_space = SPACE
    action_space = Discrete(3, start=5)

    def __init__(self):
        self.numbers, self.bytes = np.zeros(2), np.zeros(3, np.uint8)

    def _shown(self):
        t, self.numbers[:], self.bytes[:] = self.t, self.t / 3, self.t
        self.mask = np.array([1, t % 2, 1], np.int8)
        shown = {"numbers": self.numbers, "places": (t, self.bytes), "says": f"step {t}"}
        return shown, {"action_mask": self.mask}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._shown()

    def step(self, action):
        self.t += 1
        shown, info = self._shown()
        paid = np.float64(self.t) / 7
        return shown, paid if self.t % 2 else np.array([paid]), action == 6, action == 7, info


def made(env, *actions, seed=None):
    """Resets and makes these steps."""
    env.masks = IN_INFO
    env.reset(seed=seed)
    for action in actions:
        env.step(action)


def test_an_episode_is_kept_as_it_was_shown_and_paid():
    env = Recorder(Reused(), SPACE)
    made(env, 5, 5, 6, seed=11)
    (episode,) = env.ended
    observations = episode.observations
    np.testing.assert_array_equal(
        observations["numbers"], [[t / 3, t / 3] for t in range(4)], strict=True
    )
    place, picture = observations["places"]
    np.testing.assert_array_equal(place, np.arange(4), strict=True)
    np.testing.assert_array_equal(picture, np.uint8([[t] * 3 for t in range(4)]), strict=True)
    assert observations["says"] == ["step 0", "step 1", "step 2", "step 3"]
    np.testing.assert_array_equal(episode.actions, np.int64([5, 5, 6]), strict=True)
    np.testing.assert_array_equal(episode.rewards, [1 / 7, 2 / 7, 3 / 7], strict=True)
    np.testing.assert_array_equal(episode.terminations, [False, False, True], strict=True)
    assert not episode.truncations.any()
    masks = np.int8([[1, t % 2, 1] for t in range(4)])
    np.testing.assert_array_equal(episode.masks, masks, strict=True)
    assert episode.seed == 11


@pytest.mark.parametrize(
    ("last", "terminated", "truncated"),
    [(6, True, False), (7, False, True), (5, False, True)],
    ids=["terminated", "truncated", "cut by the next reset"],
)
def test_the_end_of_an_episode_is_told(last, terminated, truncated):
    env = Recorder(Reused(), SPACE)
    made(env, 5, last)
    env.reset()
    (episode,) = env.ended
    assert (episode.terminated, episode.truncated) == (terminated, truncated)
    np.testing.assert_array_equal(episode.terminations, [False, terminated])
    np.testing.assert_array_equal(episode.truncations, [False, truncated])
    assert len(episode.observations["says"]) == 3


def test_it_stops_in_the_middle_of_an_episode_once_it_has_enough_env_steps():
    env = Recorder(Reused(), SPACE, env_steps=4)
    made(env, 5, 5, 6)
    assert not env.is_over
    made(env, 5, 5, 5)
    made(env, 6)
    assert env.is_over
    assert [len(of.actions) for of in env.ended] == [3, 1]
    assert env.ended[1].truncated and env.ended[1].observations["says"] == ["step 0", "step 1"]


def test_it_keeps_as_many_episodes_as_it_is_asked_for():
    env = Recorder(Reused(), SPACE, episodes=2)
    for _ in range(4):
        made(env, 5, 6)
    assert env.is_over and len(env.ended) == 2


def test_only_wanted_parts_are_kept():
    env = Recorder(Reused(), Dict({"says": SPACE["says"]}))
    made(env, 6)
    assert env.ended[0].observations == {"says": ["step 0", "step 1"]}


def test_resets_without_steps_are_no_episodes():
    env = Recorder(Reused(), SPACE, episodes=1)
    made(env, seed=1)
    made(env, seed=2)
    made(env, 6, seed=3)
    assert [of.seed for of in env.ended] == [3]


class Branches(Reused):
    """Two branches, whose masks are one array each; at the end no action is legal."""

    action_space = MultiDiscrete([2, 2])

    def _shown(self):
        shown, _ = super()._shown()
        last = self.t == 2
        masks = np.int8([0, 0] if last else [1, 0]), np.int8([0, 0] if last else [1, 1])
        return shown, {"action_mask": masks}

    def step(self, action):
        shown, reward, _, _, info = super().step(None)
        return shown, reward, self.t == 2, False, info


def test_masks_of_branches_are_kept_as_a_replay_has_them():
    env = Recorder(Branches(), SPACE)
    made(env, np.array([0, 1]), np.array([0, 0]))
    (episode,) = env.ended
    masks = np.int8([[1, 0, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1]])
    np.testing.assert_array_equal(episode.masks, masks, strict=True)
    np.testing.assert_array_equal(episode.actions, [[0, 1], [0, 0]], strict=True)
