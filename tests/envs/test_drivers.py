"""The rows the drivers deliver, against rows written out by hand and a plain gymnasium loop."""

import sys

import gymnasium as gym
import numpy as np
import pytest

from targetnet.envs import Envs, Episode, Step, episode_seed, make_envs
from targetnet.rl_core.errors import EnvFailed
from tests.envs.conftest import Scripted

GO_ON, TERMINATE, TRUNCATE = 0, 1, 2
IGNORED = TERMINATE  # would end the new episode at once if the env saw it

# What the env with test/Scripted-v0's rules is told, and the row that follows: observation and
# reward are the step number within the episode.
#     action     observation  reward  terminated  truncated  autoreset
SCRIPTS = [
    [
        (None,      0.0,        0.0,    False,      False,     True),
        (GO_ON,     1.0,        1.0,    False,      False,     False),
        (TRUNCATE,  2.0,        2.0,    False,      True,      False),  # the true final one
        (IGNORED,   0.0,        0.0,    False,      False,     True),
        (GO_ON,     1.0,        1.0,    False,      False,     False),
        (TERMINATE, 2.0,        2.0,    True,       False,     False),
    ],
    [
        (None,      0.0,        0.0,    False,      False,     True),
        (TERMINATE, 1.0,        1.0,    True,       False,     False),
        (IGNORED,   0.0,        0.0,    False,      False,     True),
        (TRUNCATE,  1.0,        1.0,    False,      True,      False),
        (IGNORED,   0.0,        0.0,    False,      False,     True),
        (GO_ON,     1.0,        1.0,    False,      False,     False),
    ],
]  # fmt: skip
# Each driver with the scripts its envs follow.
DRIVERS = [
    ("sync", [0]),
    ("sync", [1]),
    ("sync", [0, 1]),
    ("vector_entry_point", [0]),
    ("vector_entry_point", [0, 1]),
]
BOTH = pytest.mark.parametrize("vectorization", ["sync", "vector_entry_point"])


def run(envs: Envs, actions: np.ndarray) -> list[Step]:
    """Returns a copy of the first row and of the row after each of `actions`, [T, N]."""
    steps = [copied(envs.reset())]
    for row in actions:
        steps.append(copied(envs.step(row)))
    return steps


def copied(step: Step) -> Step:
    return Step(*(np.copy(array) for array in step[:5]), step.episodes)


def column(steps: list[Step], env: int) -> list[tuple]:
    """Returns env number `env`'s row of each step, without the episodes."""
    return [(*step.observation[env], *(array[env] for array in step[1:5])) for step in steps]


def actions_of(scripts: list[list[tuple]]) -> np.ndarray:
    return np.array([[row[0] for row in script[1:]] for script in scripts], np.int32).T  # [T, N]


@pytest.mark.parametrize(("vectorization", "chosen"), DRIVERS)
def test_each_env_delivers_its_final_row_and_then_its_reset_row(vectorization, chosen):
    scripts = [SCRIPTS[i] for i in chosen]
    envs = make_envs("test/Scripted-v0", len(chosen), vectorization=vectorization, seed=1)
    steps = run(envs, actions_of(scripts))
    for env, script in enumerate(scripts):
        assert column(steps, env) == [row[1:] for row in script]


@BOTH
def test_episodes_are_reported_by_the_step_that_ends_them(vectorization):
    envs = make_envs("test/Scripted-v0", 2, vectorization=vectorization, seed=1)
    steps = run(envs, actions_of(SCRIPTS))
    assert [step.episodes for step in steps] == [
        (),
        (Episode(env=1, number=0, episode_return=1.0, length=1, terminated=True),),
        (Episode(env=0, number=0, episode_return=3.0, length=2, terminated=False),),
        (Episode(env=1, number=1, episode_return=1.0, length=1, terminated=False),),
        (),
        (Episode(env=0, number=1, episode_return=3.0, length=2, terminated=True),),
    ]


@BOTH
def test_episodes_that_end_together_are_reported_in_the_order_of_their_envs(vectorization):
    envs = make_envs("test/Scripted-v0", 3, vectorization=vectorization, seed=1)
    envs.reset()
    step = envs.step(np.array([TERMINATE, GO_ON, TRUNCATE]))
    assert [(episode.env, episode.terminated) for episode in step.episodes] == [
        (0, True),
        (2, False),
    ]


@BOTH
def test_returns_of_float32_rewards_add_up_in_float64(vectorization):
    pay = np.float32(0.1)
    envs = make_envs(
        "test/Scripted-v0", vectorization=vectorization, seed=1, env_kwargs={"pay": pay}
    )
    *_, last = run(envs, np.array([[GO_ON]] * 999 + [[TERMINATE]]))
    (episode,) = last.episodes
    assert episode.episode_return == sum([float(pay)] * 1000)
    assert isinstance(episode.episode_return, float)


def test_a_time_limit_truncates():
    envs = make_envs("test/Limited-v0", seed=1)
    steps = run(envs, np.array([[GO_ON]] * 3))
    assert [step.truncated[0] for step in steps] == [False, False, True, False]
    assert [step.autoreset[0] for step in steps] == [True, False, False, True]
    assert not any(step.terminated[0] for step in steps)


def test_env_kwargs_may_change_the_time_limit():
    envs = make_envs("test/Limited-v0", seed=1, env_kwargs={"max_episode_steps": 1})
    assert run(envs, np.array([[GO_ON]]))[1].truncated[0]


@BOTH
def test_reset_begins_the_run_anew(vectorization):
    envs = make_envs("CartPole-v1", 2, vectorization=vectorization, seed=3)
    actions = np.random.default_rng(0).integers(2, size=(100, 2))
    first, again = run(envs, actions), run(envs, actions)
    for env in range(2):
        assert column(first, env) == column(again, env)
    assert [step.episodes for step in first] == [step.episodes for step in again]
    assert any(step.episodes for step in first)


@BOTH
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_arrays_keep_their_dtypes_and_are_contiguous(vectorization, dtype):
    envs = make_envs("CartPole-v1", 3, vectorization=vectorization, seed=1)
    for step in (envs.reset(), envs.step(np.ones(3, dtype))):
        assert step.observation.shape == (3, 4)
        assert [array.dtype for array in step[:5]] == [np.float32, np.float32, bool, bool, bool]
        assert all(array.flags.c_contiguous for array in step[:5])


@BOTH
def test_the_arrays_are_overwritten_by_the_next_step(vectorization):
    envs = make_envs("test/Scripted-v0", vectorization=vectorization, seed=1)
    kept = envs.reset()
    envs.step(np.array([TERMINATE]))
    assert (kept.observation[0, 0], kept.reward[0], kept.terminated[0]) == (1.0, 1.0, True)


def test_sync_envs_are_reset_and_stepped_in_order_and_closed_once():
    tape: list[str] = []
    envs = make_envs("test/Scripted-v0", 2, seed=1, env_kwargs={"tape": tape})
    run(envs, np.array([[GO_ON, TERMINATE], [GO_ON, IGNORED]]))
    envs.close()
    envs.close()
    assert tape == [
        f"reset {episode_seed(1, env=0, episode=0)}",  # make_envs, to see an observation
        f"reset {episode_seed(1, env=0, episode=0)}",
        f"reset {episode_seed(1, env=1, episode=0)}",
        "step 0",
        "step 1",
        "step 0",
        f"reset {episode_seed(1, env=1, episode=1)}",
        "close",
        "close",
    ]


def test_a_vector_env_is_seeded_once_and_closed_once():
    tape: list[str] = []
    envs = make_envs(
        "test/Scripted-v0",
        2,
        vectorization="vector_entry_point",
        seed=1,
        env_kwargs={"tape": tape},
    )
    run(envs, actions_of(SCRIPTS))
    envs.close()
    envs.close()
    seeded = f"reset {episode_seed(1, env=0, episode=0)}"
    assert tape == [seeded, seeded, "close"]  # the first by make_envs, to see an observation


def test_closing_goes_on_after_an_env_that_fails_to_close():
    class Fragile(list):
        def append(self, entry):
            super().append(entry)
            if self.count("close") == 1:
                raise OSError("the window is gone")

    tape = Fragile()
    envs = make_envs("test/Scripted-v0", 2, seed=1, env_kwargs={"tape": tape})
    told = r"env 'test/Scripted-v0', its close: OSError was raised \(the window is gone\)"
    with pytest.raises(EnvFailed, match=told):
        envs.close()
    assert tape.count("close") == 2


@pytest.mark.parametrize("num_envs", [1, 2])
def test_a_closed_sync_driver_cannot_be_stepped(num_envs):
    envs = make_envs("CartPole-v1", num_envs, seed=1)
    envs.reset()
    envs.close()
    with pytest.raises(ValueError, match=r"zip|unpack"):
        envs.step(np.zeros(num_envs, np.int32))


@pytest.mark.parametrize("num_envs", [1, 2])
def test_a_wrong_number_of_actions_is_an_error(num_envs):
    envs = make_envs("CartPole-v1", num_envs, seed=1)
    envs.reset()
    for wrong in (num_envs - 1, num_envs + 1):
        with pytest.raises(ValueError, match=r"zip|unpack"):
            envs.step(np.zeros(wrong, np.int32))


def test_what_an_env_raises_while_it_runs_is_the_cause_of_what_is_raised():
    envs = make_envs("FrozenLake-v1", seed=1)
    envs.reset()
    with pytest.raises(EnvFailed, match="KeyError was raised") as raised:
        envs.step(np.array([17]))
    assert isinstance(raised.value.__cause__, KeyError)


@pytest.mark.parametrize("method", ["reset", "step"])
def test_an_env_that_ends_the_process_has_failed(monkeypatch, method):
    envs = make_envs("test/Scripted-v0", seed=1)
    monkeypatch.setattr(Scripted, method, lambda *args, **kwargs: sys.exit(3))
    with pytest.raises(EnvFailed, match=r"SystemExit was raised \(3\); correct the env"):
        envs.reset()
        envs.step(np.zeros(1, np.int32))


def plain_gymnasium_rows(env_id: str, kwargs: dict, seed: int, env_index: int, actions) -> list:
    """The slow obvious twin: one env, one loop, nothing shared with the drivers."""
    env = gym.make(env_id, **kwargs)
    rows, episode, ended = [], 0, True
    for action in [None, *actions]:
        if ended:
            observation, _ = env.reset(seed=episode_seed(seed, env_index, episode))
            rows.append((*observation, 0.0, False, False, True))
            episode += 1
            ended = False
        else:
            observation, reward, terminated, truncated, _ = env.step(int(action))
            rows.append((*observation, reward, terminated, truncated, False))
            ended = terminated or truncated
    return rows


@pytest.mark.parametrize("num_envs", [1, 3])
def test_random_play_equals_a_plain_gymnasium_loop(num_envs):
    kwargs = {"max_episode_steps": 20}  # so that some episodes terminate and some are truncated
    envs = make_envs("CartPole-v1", num_envs, seed=7, env_kwargs=kwargs)
    actions = np.random.default_rng(0).integers(2, size=(1000, num_envs))
    steps = run(envs, actions)
    for i in range(num_envs):
        assert column(steps, i) == plain_gymnasium_rows("CartPole-v1", kwargs, 7, i, actions[:, i])
    endings = [episode.terminated for step in steps for episode in step.episodes]
    assert min(endings.count(True), endings.count(False)) > 5


def test_reported_episodes_equal_what_the_rows_add_up_to():
    envs = make_envs("CartPole-v1", 3, seed=7)
    steps = run(envs, np.random.default_rng(1).integers(2, size=(500, 3)))
    reported = [episode for step in steps for episode in step.episodes]
    counted = []
    for i in range(3):
        number, total, length = 0, 0.0, 0
        for *_, reward, terminated, truncated, autoreset in column(steps, i):
            total, length = total + reward, length + (not autoreset)
            if terminated or truncated:
                counted.append(Episode(i, number, total, length, terminated))
                number, total, length = number + 1, 0.0, 0
    assert sorted(reported) == sorted(counted)
    assert len(counted) > 30


def test_the_vector_entry_point_of_cartpole_gives_its_own_rows_unchanged():
    envs = make_envs("CartPole-v1", 4, vectorization="vector_entry_point", seed=7)
    actions = np.random.default_rng(0).integers(2, size=(300, 4))
    steps = run(envs, actions)

    bare = gym.make_vec("CartPole-v1", 4, vectorization_mode="vector_entry_point")
    observation, _ = bare.reset(seed=episode_seed(7, env=0, episode=0))
    np.testing.assert_array_equal(steps[0].observation, observation)
    ended = np.zeros(4, bool)
    for step, row in zip(steps[1:], actions, strict=True):
        observation, reward, terminated, truncated, _ = bare.step(row)
        np.testing.assert_array_equal(step.observation, observation)
        np.testing.assert_array_equal(step.reward, reward)
        np.testing.assert_array_equal(step.terminated, terminated)
        np.testing.assert_array_equal(step.truncated, truncated)
        np.testing.assert_array_equal(step.autoreset, ended)
        assert np.all(np.abs(step.observation[ended]) <= 0.05)  # where CartPole's episodes begin
        ended = terminated | truncated
    assert sum(len(step.episodes) for step in steps) > 20
