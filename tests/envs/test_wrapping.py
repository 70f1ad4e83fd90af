"""Wrappers that a run puts around each of its envs."""

import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TransformReward

from targetnet.envs import make_envs
from targetnet.envs.elements import KeptElements
from targetnet.rl_core.errors import ConfigError, EnvError

HERE = __name__
CLOSED = []


def tenfold(env, factor=10.0):
    """Multiplies every reward."""
    return TransformReward(env, lambda reward: factor * reward)


def nothing(env):
    """Forgets to return the env."""


def fails(env):
    env.close = lambda: CLOSED.append(env)
    raise RuntimeError("no such luck")


def needs_something(env):
    import a_package_that_is_not_there  # noqa: F401


def made(wrapper, num_envs=1, env_id="CartPole-v1", **options):
    return make_envs(env_id, num_envs, seed=0, wrapper=wrapper, **options)


def rewards(envs, steps=5):
    envs.reset()
    found = [envs.step(np.zeros(envs.num_envs, np.int64)).reward.tolist() for _ in range(steps)]
    envs.close()
    return found


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_it_is_put_around_each_env(vectorization):
    assert rewards(made(f"{HERE}:tenfold", 2, vectorization=vectorization)) == [[10.0, 10.0]] * 5


def test_it_takes_its_arguments():
    assert rewards(made(f"{HERE}:tenfold", wrapper_kwargs={"factor": 3}), 1) == [[3.0]]


def test_wrappers_of_gymnasium_get_tuples_for_the_lists_of_a_config():
    envs = made("gymnasium.wrappers:ReshapeObservation", wrapper_kwargs={"shape": [2, 2]})
    assert envs.reset().observation.shape == (1, 2, 2)
    envs.close()


def test_without_one_the_env_is_as_it_is():
    assert rewards(made(""), 1) == [[1.0]]


@pytest.mark.parametrize(
    ("wrapper", "kwargs", "error", "line"),
    [
        ("nowhere:f", {}, ConfigError, r"env_wrapper 'nowhere:f' cannot be imported"),
        (f"{HERE}:tenfolt", {}, ConfigError, "has no function 'tenfolt'; did you mean 'tenfold'"),
        (f"{HERE}:nothing", {}, EnvError, r"env_wrapper '.*:nothing' must return an env, got None"),
        (
            f"{HERE}:tenfold",
            {"facto": 1},
            EnvError,
            r"cannot wrap 'CartPole-v1' with env_wrapper_kwargs {'facto': 1} \(TypeError: ",
        ),
        (f"{HERE}:needs_something", {}, EnvError, r"a_package_that_is_not_there.*install that"),
        ("atari", {}, EnvError, r"cannot wrap 'CartPole-v1' \(ValueError: it is none of ALE's"),
    ],
)
def test_what_goes_wrong_is_one_line(wrapper, kwargs, error, line):
    with pytest.raises(error, match=line) as told:
        made(wrapper, wrapper_kwargs=kwargs)
    assert "\n" not in str(told.value)


def test_an_env_that_cannot_be_wrapped_is_closed():
    CLOSED.clear()
    with pytest.raises(EnvError, match=r"\(RuntimeError: no such luck\) at .*test_wrapping.py"):
        made(f"{HERE}:fails")
    assert len(CLOSED) == 1 and isinstance(CLOSED[0], gym.Env)


@pytest.mark.parametrize("vectorization", ["vector_entry_point", "envpool"])
def test_a_vector_env_has_no_single_envs_to_wrap(vectorization):
    with pytest.raises(EnvError, match="is put around single envs, and vectorization = "):
        made(f"{HERE}:tenfold", vectorization=vectorization)


def test_without_opencv_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(EnvError) as refused:
        made("atari", env_id="ALE/Pong-v5", env_kwargs={"frameskip": 1})
    assert str(refused.value).startswith("env_wrapper 'atari' needs something that cannot be")
    assert str(refused.value).endswith("run: pip install 'targetnet[atari]'")


def test_elements_are_kept_in_their_order():
    envs, whole = made("elements", wrapper_kwargs={"keep": [2, 0]}), made("")
    seen, all_of_it = envs.reset().observation, whole.reset().observation
    np.testing.assert_array_equal(seen, all_of_it[:, [2, 0]])
    for action in (0, 1, 1):
        step = envs.step(np.array([action]))
        np.testing.assert_array_equal(
            step.observation, whole.step(np.array([action])).observation[:, [2, 0]]
        )
    assert envs.observation_shape == (2,)
    envs.close()
    whole.close()


def test_the_spec_of_an_env_with_some_elements_makes_it_again():
    env = KeptElements(gym.make("CartPole-v1"), keep=[2, 0])
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    np.testing.assert_array_equal(again.reset(seed=5)[0], env.reset(seed=5)[0], strict=True)


@pytest.mark.parametrize("keep", [[0, 4], [], [-1], [True], [1.0], [1, 1], 1, "0"])
def test_elements_that_are_not_there_are_refused(keep):
    with pytest.raises(
        EnvError, match=r"keep must be a list of elements .* 0 to 3, each once, got"
    ):
        made("elements", wrapper_kwargs={"keep": keep})


def test_elements_are_those_of_a_vector():
    with pytest.raises(EnvError, match="needs observations of a vector, got Discrete"):
        made("elements", env_id="FrozenLake-v1", wrapper_kwargs={"keep": [0]})
