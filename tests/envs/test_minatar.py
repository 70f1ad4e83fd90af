"""MinAtar's games: the package's own rules, and episodes that their seed and actions determine."""

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from targetnet.envs import make_envs
from targetnet.envs.minatar import GAMES, PALETTE, MinAtarEnv
from targetnet.rl_core.errors import EnvError

# id                v1's actions  channels   (table 1 and section 3 of the paper)
IDS = [
    ("Asterix",       5, 4),
    ("Breakout",      3, 4),
    ("Freeway",       3, 7),
    ("Seaquest",      6, 10),
    ("SpaceInvaders", 4, 6),
]  # fmt: skip
EVERY_GAME = pytest.mark.parametrize("game", GAMES)


def test_the_names_are_those_of_the_games():
    assert [name for name, *_ in IDS] == [game.title().replace("_", "") for game in GAMES]


@pytest.mark.parametrize(("name", "minimal", "channels"), IDS)
def test_observations_are_bool_planes_and_version_0_has_all_six_actions(name, minimal, channels):
    for version, num_actions in ((0, 6), (1, minimal)):
        envs = make_envs(f"MinAtar/{name}-v{version}", 2, seed=1)
        assert envs.num_actions == num_actions
        assert (envs.observation_shape, envs.observation_dtype) == ((10, 10, channels), bool)
        step = envs.reset()
        assert step.observation.dtype == bool and step.observation.any()
        assert not envs.has_action_masks
        envs.close()


@pytest.mark.cases(3)
@EVERY_GAME
@pytest.mark.filterwarnings("ignore")
def test_each_step_is_the_packages_own(game):
    from minatar import Environment

    theirs, ours = Environment(game), MinAtarEnv(game, use_minimal_action_set=False)
    actions = np.random.default_rng(0).integers(6, size=10_000).tolist()
    ended, episodes, rewards = True, 0, 0.0
    for action in actions:
        if ended:
            # Every other episode goes on with the random numbers of the one before.
            seed = episodes if episodes % 2 == 0 else None
            theirs.seed(seed)
            theirs.reset()
            theirs.last_action = 0  # the one thing that is not the package's own
            observation, _ = ours.reset(seed=seed)
            np.testing.assert_array_equal(observation, theirs.state())
            episodes += 1
        paid, ended = theirs.act(action)
        observation, reward, terminated, truncated, _ = ours.step(action)
        np.testing.assert_array_equal(observation, theirs.state())
        assert (reward, terminated, truncated) == (paid, ended, False)
        rewards += reward
    assert episodes > 3
    # A hen that moves at random is run over before it has crossed the road.
    assert rewards > 0 or game == "freeway"


def rows(env, seed, actions):
    observation, _ = env.reset(seed=seed)
    taken = [(observation, 0.0, False)]
    for action in actions:
        observation, reward, terminated, *_ = env.step(action)
        taken.append((observation, reward, terminated))
    return taken


def assert_same(left, right):
    for (a, *rest_a), (b, *rest_b) in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)
        assert rest_a == rest_b


@EVERY_GAME
def test_an_episode_is_its_seed_and_its_actions_whatever_came_before(game):
    env = MinAtarEnv(game, sticky_action_prob=0.5)
    n = int(env.action_space.n)
    actions = np.random.default_rng(1).integers(n, size=(3, 300)).tolist()
    first = rows(env, 7, actions[0])
    second = rows(env, 8, actions[1])
    rows(env, 9, actions[2])
    # After another history, in an env of its own, and at once again.
    assert_same(rows(env, 8, actions[1]), second)
    assert_same(rows(MinAtarEnv(game, sticky_action_prob=0.5), 8, actions[1]), second)
    assert_same(rows(env, 7, actions[0]), first)


def test_the_first_sticky_action_of_an_episode_is_to_do_nothing():
    env = MinAtarEnv("breakout", sticky_action_prob=1.0)
    env.reset(seed=1)
    env._last_action = 3  # to the right, as the episode before may have ended
    observation, _ = env.reset(seed=1)
    paddle = observation[9, :, 0]
    for _ in range(3):
        observation, *_ = env.step(2)  # to the right, but never done
        np.testing.assert_array_equal(observation[9, :, 0], paddle)


def test_an_action_sticks_as_often_as_it_should():
    env = MinAtarEnv("freeway", sticky_action_prob=0.25)
    env.reset(seed=0)
    stuck, before = 0, env._last_action
    for action in np.random.default_rng(0).integers(3, size=2000).tolist():
        env.step(action)
        stuck += env._last_action != env._actions[action]
        assert env._last_action in (before, env._actions[action])
        before = env._last_action
    # 2000 * 0.25 * 2/3 = 333 are seen, as a third repeats the same; the deviation is 17.
    assert abs(stuck - 333) < 4 * 17


def test_a_run_of_ours_repeats_also_in_its_later_episodes():
    def run():
        envs = make_envs("MinAtar/Breakout-v1", seed=5)
        rng = np.random.default_rng(0)
        envs.reset()
        steps = []
        for _ in range(500):
            step = envs.step(rng.integers(3, size=1))
            steps.append((np.copy(step.observation), float(step.reward[0]), step.episodes))
        return steps

    first, again = run(), run()
    assert_same(first, again)
    assert sum(len(episodes) for *_, episodes in first) > 5


@pytest.mark.parametrize(("env_kwargs", "limit"), [({}, 20_000), ({"max_episode_steps": 2}, 2)])
def test_an_episode_that_would_never_end_is_truncated(env_kwargs, limit):
    envs = make_envs("MinAtar/Seaquest-v1", seed=1, env_kwargs=env_kwargs)
    envs.reset()
    stay = np.array([0])  # at the surface, where nothing comes
    assert not any(envs.step(stay).truncated[0] for _ in range(limit - 1))
    (episode,) = envs.step(stay).episodes
    assert (episode.length, episode.terminated) == (limit, False)


def test_difficulty_ramping_can_be_left_out():
    def last_speed(ramping):
        env = MinAtarEnv("asterix", difficulty_ramping=ramping, sticky_action_prob=0.0)
        env.reset(seed=0)
        env._game.entities = []  # nothing to run into
        for _ in range(300):
            env.step(0)
        return env._game.spawn_speed

    assert last_speed(False) == 10 and last_speed(True) < 10


def test_a_picture_has_the_colour_of_the_last_channel_in_each_cell():
    envs = make_envs("MinAtar/Breakout-v1", seed=1, env_kwargs={"render_mode": "rgb_array"})
    observation = envs.reset().observation[0]
    picture = envs.render()
    assert (picture.shape, picture.dtype, envs.frames_per_second) == ((160, 160, 3), np.uint8, 20)
    for y in range(10):
        for x in range(10):
            (there,) = np.nonzero(observation[y, x])
            colour = PALETTE[there[-1] + 1] if len(there) else PALETTE[0]
            assert (picture[16 * y : 16 * y + 16, 16 * x : 16 * x + 16] == colour).all()


def test_every_channel_has_a_colour_of_its_own():
    assert len(np.unique(PALETTE, axis=0)) == len(PALETTE) == 1 + 10  # Seaquest's, and black


@EVERY_GAME
def test_gymnasiums_checker_has_no_complaint(game, recwarn):
    check_env(MinAtarEnv(game), skip_render_check=True)
    assert [str(w.message) for w in recwarn] == []


def test_the_packages_own_registration_does_not_displace_ours():
    name = "MinAtar/Breakout-v1"
    gym.register(name, "minatar.gym:BaseEnv", kwargs={"game": "breakout"})
    envs = make_envs(name, seed=1)
    del gym.registry[name]
    assert isinstance(envs._lanes[0].env.unwrapped, MinAtarEnv)


@pytest.mark.parametrize(
    ("env_kwargs", "problem"),
    [
        ({"sticky_action_prob": 1.5}, "sticky_action_prob must be in [0, 1], got 1.5"),
        ({"game": "pong"}, "game must be one of asterix, breakout, freeway, seaquest, space"),
        ({"sticky_prob": 0.1}, "did you mean 'sticky_action_prob'?"),
    ],
)
def test_an_argument_that_cannot_be_is_refused_in_one_line(env_kwargs, problem):
    with pytest.raises(EnvError) as refused:
        make_envs("MinAtar/Breakout-v1", seed=1, env_kwargs=env_kwargs)
    assert problem in str(refused.value) and "\n" not in str(refused.value)


def test_what_the_package_needs_for_its_display_is_not_imported():
    code = (
        "import sys; from targetnet.envs import make_envs\n"
        "make_envs('MinAtar/Breakout-v1', seed=1).reset();"
        "print({'seaborn', 'pandas', 'matplotlib', 'minatar'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("set()\n", "")
