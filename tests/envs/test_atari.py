"""ALE's own vector env: its rows follow the contract of Step. Without the package it says so."""

import sys
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest

from targetnet.envs import Episode, episode_seed, make_envs
from targetnet.rl_core.errors import EnvError

SPACE_INVADERS = "ale_py:ALE/SpaceInvaders-v5"
FRAMES = 200  # of an episode, unless a game ends before: 4 for each step


def made(num_envs, env_id=SPACE_INVADERS, **env_kwargs):
    kwargs = {"max_num_frames_per_episode": FRAMES} | env_kwargs
    return make_envs(
        env_id, num_envs, vectorization="vector_entry_point", seed=3, env_kwargs=kwargs
    )


def actions_for(envs, steps):
    rng = np.random.default_rng(0)
    return rng.integers(envs.num_actions, size=(steps, envs.num_envs)).astype(np.int32)


def copied(step):
    return step._replace(**{k: v.copy() for k, v in step._asdict().items() if hasattr(v, "copy")})


def played(envs, steps):
    rows = [copied(envs.reset())]
    return rows + [copied(envs.step(row)) for row in actions_for(envs, steps)]


@pytest.mark.parametrize("env_id", [SPACE_INVADERS, "ALE/SpaceInvaders-v5"])
def test_without_the_package_one_line_says_what_to_install(monkeypatch, env_id):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(EnvError) as refused:
        made(1, env_id)
    assert "the module 'ale_py' that should register it cannot be imported" in str(refused.value)
    assert str(refused.value).endswith("run: pip install 'targetnet[atari]'")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("shape", "stored"),
    [
        ((4, 84, 84), (84, 84, 4)),  # four frames
        ((1, 84, 84), (84, 84, 1)),
        ((3, 6, 7), (6, 7, 3)),  # 2 * 3 <= 6
        ((4, 6, 7), (4, 6, 7)),  # 2 * 4 > 6
        ((210, 160, 3), (210, 160, 3)),  # the channels are last as they are
        ((4, 84, 84, 3), (4, 84, 84, 3)),
    ],
)
def test_images_with_their_channels_first_are_stored_with_them_last(shape, stored):
    image = np.random.default_rng(0).integers(256, size=shape).astype(np.uint8)
    space = gym.spaces.Box(0, 255, shape, np.uint8)
    env_kwargs = {"observation": image, "observation_space": space}
    envs = make_envs("test/Fixed-v0", 2, seed=1, env_kwargs=env_kwargs)
    assert envs.observation_shape == stored
    expected = image if stored == shape else image.transpose(1, 2, 0)
    for env in range(2):
        np.testing.assert_array_equal(envs.reset().observation[env], expected)


def test_planes_that_are_no_images_stay_as_they_are():
    space = gym.spaces.Box(0, 1, (4, 10, 10), np.float32)
    env_kwargs = {"observation": np.zeros((4, 10, 10), np.float32), "observation_space": space}
    assert make_envs("test/Fixed-v0", seed=1, env_kwargs=env_kwargs).observation_shape == (
        (4, 10, 10)
    )


class TestInstalled:
    @pytest.fixture(autouse=True)
    def ale_py(self):
        pytest.importorskip("ale_py")

    @pytest.mark.thorough
    def test_the_rows_are_those_of_the_bare_vector_env_with_its_frames_last(self):
        envs = made(3)
        bare = gym.make_vec(
            SPACE_INVADERS,
            3,
            vectorization_mode="vector_entry_point",
            reward_clipping=False,
            max_num_frames_per_episode=FRAMES,
        )
        observation, _ = bare.reset(seed=episode_seed(3, env=0, episode=0))
        step = envs.reset()
        assert envs.observation_shape == (84, 84, 4) and envs.observation_dtype == np.uint8
        assert step.observation.flags.c_contiguous
        np.testing.assert_array_equal(step.observation, observation.transpose(0, 2, 3, 1))
        ended = np.zeros(3, bool)
        for actions in actions_for(envs, 130):
            step = envs.step(actions)
            observation, reward, terminated, truncated, _ = bare.step(actions)
            np.testing.assert_array_equal(step.observation, observation.transpose(0, 2, 3, 1))
            np.testing.assert_array_equal(step.reward, reward)
            np.testing.assert_array_equal(step.terminated, terminated)
            np.testing.assert_array_equal(step.truncated, truncated)
            np.testing.assert_array_equal(step.autoreset, ended)
            ended = terminated | truncated

    @pytest.mark.thorough
    def test_final_rows_continue_the_ones_before_and_reset_rows_pay_nothing(self):
        rows = played(made(3), 170)
        finals = 0
        for before, after in pairwise(rows):
            goes_on = ~after.autoreset  # also the rows that end an episode
            np.testing.assert_array_equal(
                after.observation[goes_on, :, :, :3], before.observation[goes_on, :, :, 1:]
            )
            np.testing.assert_array_equal(after.autoreset, before.terminated | before.truncated)
            assert not after.reward[after.autoreset].any()
            finals += int(np.count_nonzero(before.terminated | before.truncated))
        assert finals >= 9

    @pytest.mark.thorough
    def test_episodes_return_the_sum_of_the_raw_rewards_and_are_cut_off(self):
        rows = played(made(3), 170)
        total, length, number = np.zeros(3), np.zeros(3, int), np.full(3, -1)
        counted, reported = [], []
        for row in rows:
            total = np.where(row.autoreset, 0.0, total + row.reward)
            length = np.where(row.autoreset, 0, length + 1)
            number += row.autoreset
            counted += [
                Episode(i, number[i], total[i], length[i], row.terminated[i])
                for i in np.flatnonzero(row.terminated | row.truncated)
            ]
            reported += row.episodes
        assert reported == counted and len(counted) >= 9
        assert not all(episode.terminated for episode in counted)
        # Space Invaders pays 5 and more for a hit: ALE's clipping to 1 is off.
        assert max(row.reward.max() for row in rows) >= 5

    @pytest.mark.thorough
    def test_ales_own_clipping_may_be_asked_for(self):
        rows = played(made(3, reward_clipping=True), 100)
        assert {float(r) for row in rows for r in row.reward} == {0.0, 1.0}

    @pytest.mark.thorough
    def test_the_same_seed_gives_the_same_rows_also_after_a_reset_in_between(self):
        envs = made(2, "ale_py:ALE/Breakout-v5")
        first, again = played(envs, 110), played(envs, 110)
        other = played(made(2, "ale_py:ALE/Breakout-v5"), 110)
        for a, b, c in zip(first, again, other, strict=True):
            assert a.episodes == b.episodes == c.episodes
            np.testing.assert_array_equal(a.observation, b.observation)
            np.testing.assert_array_equal(a.observation, c.observation)

    def test_an_unknown_game_names_the_nearest(self):
        with pytest.raises(EnvError, match=r"did you mean 'ALE/Breakout-v5'\?"):
            made(1, "ale_py:ALE/Braekout-v5")


def alone(game, seed=3, frame_stack=4, wrapper_kwargs=None, **kwargs):
    """One of ALE's games in an env of its own, as agents are trained on it."""
    return make_envs(
        f"ALE/{game}-v5", seed=seed, wrapper="atari", frame_stack=frame_stack,
        wrapper_kwargs=wrapper_kwargs or {},
        env_kwargs={"frameskip": 1, "max_num_frames_per_episode": 400} | kwargs,
    )  # fmt: skip


def require_the_same(one, many, steps, *, last_frames=True):
    """Asserts that two envs show and pay the same; returns how many episodes began.

    Whole stacks from the fourth time step of an episode on: where it begins, vector envs repeat its
    first frame, and ours has zeros.
    """
    assert one.num_actions == many.num_actions and one.observation_shape == (84, 84, 4)
    begun, since = 0, 0
    for a, b in zip(played(one, steps), played(many, steps), strict=True):
        begun += a.autoreset[0]
        since = 0 if a.autoreset[0] else since + 1
        if last_frames or not a.truncated[0]:
            shown = slice(None) if since >= 3 else slice(-1, None)
            np.testing.assert_array_equal(a.observation[..., shown], b.observation[..., shown])
        for name in ("reward", "terminated", "truncated", "autoreset"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    one.close(), many.close()
    return begun


every_game = pytest.mark.parametrize("game", ["Pong", "Breakout", "Freeway", "SpaceInvaders"])


@pytest.mark.cases(0)
@every_game
def test_a_single_env_and_ales_vector_env_show_the_same_frame_by_frame(game):
    """Without sticky actions: these are other draws in the two."""
    many = make_envs(
        f"ALE/{game}-v5", 1, vectorization="vector_entry_point", seed=3,
        env_kwargs={
            "repeat_action_probability": 0.0, "noop_max": 0, "use_fire_reset": False,
            "max_num_frames_per_episode": 400,
        },
    )  # fmt: skip
    assert require_the_same(alone(game, repeat_action_probability=0.0), many, 230) == 3


@pytest.mark.thorough
def test_ales_vector_env_leaves_stacking_to_the_frame_stack():
    """So each frame is stored once, and whole stacks are those of a single env, with its zeros."""
    many = make_envs(
        "ALE/Breakout-v5", 1, vectorization="vector_entry_point", seed=3, frame_stack=4,
        env_kwargs={
            "repeat_action_probability": 0.0, "noop_max": 0, "use_fire_reset": False,
            "max_num_frames_per_episode": 400,
        },
    )  # fmt: skip
    one = alone("Breakout", repeat_action_probability=0.0)
    assert one.observation_shape == many.observation_shape == (84, 84, 4)
    for a, b in zip(played(one, 230), played(many, 230), strict=True):
        np.testing.assert_array_equal(a.observation, b.observation)
    one.close(), many.close()


@every_game
def test_a_single_env_and_envpool_show_the_same_frame_by_frame(game):
    """Without sticky actions, and begun with one step of no action, which envpool always makes.

    But for the last frame before a time limit: Gymnasium's wrapper leaves out the frame with which
    an episode ends, and shows one of the action before in its place.
    """
    pytest.importorskip("envpool")
    many = make_envs(
        f"{game}-v5", 1, vectorization="envpool", seed=3,
        env_kwargs={
            "repeat_action_probability": 0.0, "noop_max": 1, "use_fire_reset": False,
            "max_episode_steps": 100,
        },
    )  # fmt: skip
    one = alone(
        game, wrapper_kwargs={"noop_max": 1}, repeat_action_probability=0.0,
        max_num_frames_per_episode=401,
    )  # fmt: skip
    assert require_the_same(one, many, 299, last_frames=False) == 3


ALL_ACTIONS = (
    *("NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN"),
    *("UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT"),
    *("UPFIRE", "RIGHTFIRE", "LEFTFIRE", "DOWNFIRE"),
    *("UPRIGHTFIRE", "UPLEFTFIRE", "DOWNRIGHTFIRE", "DOWNLEFTFIRE"),
)  # fmt: skip
THAT_MATTER = {
    "Pong": ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"),
    "Breakout": ("NOOP", "FIRE", "RIGHT", "LEFT"),
    "Freeway": ("NOOP", "UP", "DOWN"),
}


def of_both_kinds(game, way, **kwargs):
    """A single env or ALE's vector env, that show and pay the same."""
    kwargs = {"repeat_action_probability": 0.0} | kwargs
    if way == "single":
        return alone(game, **kwargs)
    return make_envs(
        f"ALE/{game}-v5", 1, vectorization="vector_entry_point", seed=3,
        env_kwargs={"noop_max": 0, "use_fire_reset": False, "max_num_frames_per_episode": 400}
        | kwargs,
    )  # fmt: skip


@pytest.mark.cases(0)
@pytest.mark.parametrize("game", THAT_MATTER)
@pytest.mark.parametrize("way", ["single", "vector"])
def test_the_actions_that_matter_are_those_of_their_names_among_all_18(game, way):
    few, full = of_both_kinds(game, way), of_both_kinds(game, way, full_action_space=True)
    names = THAT_MATTER[game]
    assert (few.num_actions, full.num_actions) == (len(names), 18)
    if way == "single":
        for envs, wanted in ((few, names), (full, ALL_ACTIONS)):
            assert tuple(envs._lanes[0].env.unwrapped.get_action_meanings()) == wanted
    actions = np.random.default_rng(0).integers(len(names), size=(30, 1))
    numbers = np.array([ALL_ACTIONS.index(name) for name in names])

    def shown(envs, actions):
        rows = [copied(envs.reset()), *(copied(envs.step(row)) for row in actions)]
        return np.stack([row.observation for row in rows]), np.stack([row.reward for row in rows])

    seen, paid = shown(few, actions)
    for a, b in zip(shown(full, numbers[actions]), (seen, paid), strict=True):
        np.testing.assert_array_equal(a, b)
    # The same numbers mean other actions there.
    assert not np.array_equal(shown(full, actions)[0], seen)
    few.close(), full.close()


@pytest.mark.parametrize("game", ["Breakout", "SpaceInvaders"])
def test_all_18_do_the_same_in_a_single_env_and_in_ales_vector_env(game):
    one, many = (of_both_kinds(game, way, full_action_space=True) for way in ("single", "vector"))
    assert one.num_actions == 18
    require_the_same(one, many, 99)


def test_by_default_actions_stick_and_a_lost_life_is_no_end():
    envs = alone("Breakout", max_num_frames_per_episode=108_000, frame_stack=1)
    (lane,) = envs._lanes
    assert lane.env.unwrapped.ale.getFloat("repeat_action_probability") == 0.25
    envs.reset()
    lives, rng = {lane.env.unwrapped.ale.lives()}, np.random.default_rng(0)
    while not (step := envs.step(rng.integers(4, size=1))).terminated[0]:
        lives.add(lane.env.unwrapped.ale.lives())
    assert lives == {5, 4, 3, 2, 1} and step.episodes[0].length > 100
    envs.close()


def test_an_env_that_was_brought_back_shows_the_same_frames():
    envs, again = alone("Pong"), alone("Pong")
    step = played(envs, 60)[-1]
    back, problems = again.restore(envs.state())
    assert problems == []
    np.testing.assert_array_equal(back.observation, step.observation)
    assert len(set(back.observation[0].reshape(-1, 4).sum(axis=0).tolist())) > 1
    envs.close(), again.close()


@pytest.mark.thorough
def test_a_vector_env_that_is_reset_again_plays_as_a_new_one():
    """The envs of a run's evaluations are kept, and their first reset is like every other."""
    envs, new = made(3), made(3)
    first, again = played(envs, 60), played(envs, 60)
    for rows in (again, played(new, 60)):
        for a, b in zip(first, rows, strict=True):
            np.testing.assert_array_equal(a.observation, b.observation)
            np.testing.assert_array_equal(a.reward, b.reward)
    envs.close(), new.close()


@pytest.mark.thorough
def test_begun_with_steps_of_no_action_episodes_differ():
    envs = make_envs(
        "ALE/Pong-v5", 4, seed=0, wrapper="atari", wrapper_kwargs={"noop_max": 30},
        env_kwargs={"frameskip": 1},
    )  # fmt: skip
    first = envs.reset().observation
    assert len({frame.tobytes() for frame in first}) > 1
    envs.close()


def test_frames_are_skipped_once():
    with pytest.raises(EnvError, match=r"set env_kwargs = \{ frameskip = 1 \}"):
        make_envs("ALE/Pong-v5", seed=0, wrapper="atari")
