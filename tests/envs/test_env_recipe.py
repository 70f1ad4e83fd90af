"""Wrappers that a run puts around each of its envs."""

import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import (
    ClipReward,
    NormalizeObservation,
    RecordEpisodeStatistics,
    TransformReward,
)

from targetnet.envs import make_envs
from targetnet.envs.env_recipe import SelectedElements
from targetnet.rl_core.errors import ArgumentError, ConfigError, EnvError

HERE = __name__
CLOSED = []


def tenfold(env, factor=10.0):
    """Multiplies every reward."""
    return TransformReward(env, lambda reward: factor * reward)


def plus_one(env):
    return TransformReward(env, lambda reward: reward + 1)


def nothing(env):
    """Forgets to return the env."""


def fails(env):
    env.close = lambda: CLOSED.append(env)
    raise RuntimeError("no such luck")


def needs_something(env):
    import a_package_that_is_not_there  # noqa: F401


def does_not_start(env):
    raise gym.error.DependencyNotInstalled("not installed") from ImportError("libGL.so.1: no")


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


# Arguments: a config has lists, and code has other types.


def of_tuples(env, shape, inside):
    assert type(shape) is tuple and type(inside["of"]) is tuple
    return env


def of_arrays(env, weight: np.ndarray, *, names):
    assert weight.dtype.kind == "f" and weight.shape == (2, 1) and names == ("a", "b")
    return env


def of_arrays_untold(env, weight):
    return tenfold(env, factor=weight.sum())


def of_lists(env, names):
    names += ["more"]
    return tenfold(env, factor=len(names))


@pytest.mark.parametrize(
    ("wrapper", "kwargs", "paid"),
    [
        ("of_tuples", {"shape": [2, [1]], "inside": {"of": [1]}}, 1.0),
        ("of_arrays", {"weight": [[1.0], [2]], "names": ["a", "b"]}, 1.0),
        ("of_arrays_untold", {"weight": [1, 2]}, 3.0),
        ("of_lists", {"names": ["a"]}, 2.0),
    ],
)
def test_lists_of_a_config_reach_any_wrapper_in_the_form_that_it_takes(wrapper, kwargs, paid):
    assert rewards(made(f"{HERE}:{wrapper}", wrapper_kwargs=kwargs), 1) == [[paid]]


def test_gymnasiums_bounds_are_arrays():
    bounds = {"min_obs": [0, 0], "max_obs": [1.0, 2]}
    envs = made("gymnasium.wrappers:RescaleObservation", 1, "MountainCar-v0", wrapper_kwargs=bounds)
    # Between -1.2 and 0.6 it begins at -0.52; at rest it is in the middle.
    np.testing.assert_allclose(envs.reset().observation, [[(1.2 - 0.52) / 1.8, 1]], atol=0.05)
    envs.close()


# Several wrappers.


@pytest.mark.cases(1)
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_several_are_put_around_in_their_order(vectorization):
    for names, paid in (("tenfold plus_one", 11.0), ("plus_one tenfold", 20.0)):
        wrapper = [f"{HERE}:{name}" for name in names.split()]
        assert rewards(made(wrapper, 2, vectorization=vectorization), 1) == [[paid, paid]]


def test_each_of_several_takes_its_own_arguments():
    kwargs = [{"factor": 3}, {}, {"factor": 5}]
    wrapper = [f"{HERE}:tenfold", f"{HERE}:plus_one", f"{HERE}:tenfold"]
    assert rewards(made(wrapper, wrapper_kwargs=kwargs), 1) == [[20.0]]  # (3 + 1) * 5
    assert rewards(made(wrapper[:1], wrapper_kwargs=kwargs[:1]), 1) == [[3.0]]


@pytest.mark.parametrize(
    ("wrapper", "kwargs", "line"),
    [
        (["atari", "elements"], [{}], "wrapper_kwargs must be as many as the wrappers, 2, got 1"),
        ("elements", [{}, {}], "wrapper_kwargs must be as many as the wrappers, 1, got 2"),
        ("elements", [3], r"a list of such, one for each wrapper, or None, got \[3\]"),
        (["elements", 3], None, r"or a list of these, got \['elements', 3\]"),
    ],
)
def test_names_and_arguments_that_do_not_go_together_are_refused(wrapper, kwargs, line):
    with pytest.raises(ArgumentError, match=line):
        made(wrapper, wrapper_kwargs=kwargs)


# Wrappers of Gymnasium's that learn from what they see, or change what a return means.


class Sharper(NormalizeObservation):
    def __init__(self, env):
        super().__init__(env, epsilon=1e-3)


def hidden(env):
    return RecordEpisodeStatistics(NormalizeObservation(RecordEpisodeStatistics(env)))


def clipped(env):
    return ClipReward(env, 0.0, 0.25)


NORMALIZES = "carries its statistics from episode to episode.*normalize_observations = true"


@pytest.mark.parametrize(
    ("wrapper", "line"),
    [
        ("gymnasium.wrappers:NormalizeObservation", NORMALIZES),
        ("gymnasium.wrappers.vector:NormalizeObservation", NORMALIZES),
        (f"{HERE}:Sharper", NORMALIZES),
        (f"{HERE}:hidden", NORMALIZES),
        ([f"{HERE}:tenfold", f"{HERE}:hidden"], NORMALIZES),
        ("gymnasium.wrappers:NormalizeReward", "carries its statistics .* set reward_scale, which"),
        ("gymnasium.wrappers:ClipReward", "changes what a return means; .* set reward_clip, which"),
    ],
)
def test_what_outlives_an_episode_is_refused_with_the_key_to_use_instead(wrapper, line):
    with pytest.raises(EnvError, match=line) as told:
        made(wrapper)
    assert "\n" not in str(told.value)


def test_a_wrapper_of_ones_own_may_clip_what_the_env_pays():
    assert rewards(made(f"{HERE}:clipped"), 1) == [[0.25]]


def test_an_env_that_normalizes_by_itself_is_not_refused():
    """Whoever made the env decided so; that its episodes do not come back is told elsewhere."""
    gym.register("test/Normalizes-v0", lambda: NormalizeObservation(gym.make("CartPole-v1")))
    try:
        assert rewards(made(f"{HERE}:tenfold", env_id="test/Normalizes-v0"), 1) == [[10.0]]
    finally:
        del gym.registry["test/Normalizes-v0"]


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
        (f"{HERE}:does_not_start", {}, EnvError, r"\(libGL.so.1: no\); it is installed, but does "),
        ("atari", {}, EnvError, r"cannot wrap 'CartPole-v1' \(ValueError: it is none of ALE's"),
    ],
)
def test_what_goes_wrong_is_one_line(wrapper, kwargs, error, line):
    with pytest.raises(error, match=line) as told:
        made(wrapper, wrapper_kwargs=kwargs)
    assert "\n" not in str(told.value)


def test_an_env_that_cannot_be_wrapped_is_closed():
    CLOSED.clear()
    with pytest.raises(EnvError, match=r"\(RuntimeError: no such luck\) at .*test_env_recipe.py"):
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
    env = SelectedElements(gym.make("CartPole-v1"), keep=[2, 0])
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
