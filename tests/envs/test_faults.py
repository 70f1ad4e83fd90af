"""What an env does wrong after its first reset: found at once, and told with env and step."""

import contextlib
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest

from targetnet.envs import async_driver, make_envs
from targetnet.envs.in_graph.table import SPECS
from targetnet.envs.outcomes import as_rewards
from targetnet.rl_core.errors import EnvContractError, EnvError, EnvFailed, EnvFault, EnvNotFinite

NAN, INF = float("nan"), float("inf")

# Workers import it, and so does the test. `fault` changes what step `at` of env `who` returns;
# at 0 it changes what the reset of the second episode returns.
MODULE = """
import gymnasium as gym, numpy as np

def row(t, dtype):
    return np.array([t, -t], dtype)

class Broken(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, at=2, observation=None, space=None, dtype="float32", length=4, **changes):
        self.at, self.observation, self.changes, self.dtype = at, observation, changes, dtype
        self.length, self.episodes = length, 0
        if space is not None:
            self.observation_space = space

    def seen(self):
        if self.observation is not None and self.t == self.at:
            return self.observation
        if isinstance(self.observation_space, gym.spaces.Discrete):
            return self.t
        if self.observation_space.dtype != np.float32:
            return np.zeros(self.observation_space.shape, self.observation_space.dtype)
        return row(self.t, self.dtype)

    def reset(self, *, seed=None, options=None):
        self.t, self.episodes = 0, self.episodes + 1
        if self.at == 0 and self.episodes == 3 and "reset" in self.changes:
            return self.changes["reset"]
        return self.seen(), {}

    def step(self, action):
        self.t += 1
        result = {"reward": 1.0, "terminated": self.t == self.length, "truncated": False}
        if self.t == self.at:
            if self.changes.get("raises"):
                raise RuntimeError("not today,\\nnot here")
            if "step" in self.changes:
                return self.changes["step"]
            result |= self.changes
        return self.seen(), *result.values(), {}

gym.register("Broken-v0", Broken)
gym.register("BrokenLimited-v0", Broken, max_episode_steps=100)
"""


@pytest.fixture(autouse=True)
def broken_module(tmp_path, monkeypatch):
    (tmp_path / "broken_envs.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("broken_envs", None)
    for name in ("Broken-v0", "BrokenLimited-v0"):
        gym.registry.pop(name, None)


def fault_of(num_envs=1, vectorization="sync", env_id="Broken-v0", steps=12, **kwargs):
    """The fault within some steps, and the transitions before its time step."""
    rewards = {name: kwargs.pop(name) for name in list(kwargs) if name.startswith("reward_")}
    envs = make_envs(
        f"broken_envs:{env_id}", num_envs, seed=1, vectorization=vectorization,
        env_kwargs=kwargs, **rewards,
    )  # fmt: skip
    with contextlib.closing(envs), warnings.catch_warnings():
        warnings.simplefilter("error")  # one line, and none of NumPy's beside it
        transitions = 0
        with pytest.raises(EnvFault) as raised:
            envs.reset()
            for _ in range(steps):
                step = envs.step(np.zeros(num_envs, int))
                transitions += num_envs - int(np.count_nonzero(step.autoreset))
    assert "\n" not in str(raised.value)
    return raised.value, transitions


def message(**kwargs):
    return str(fault_of(**kwargs)[0])


WHERE = "env 0 (broken_envs:Broken-v0), step 2 of its episode 0: "
NOT_FINITE = [
    ({"reward": NAN}, "the reward must be finite in float32, got nan"),
    ({"reward": np.float32(INF)}, "the reward must be finite in float32, got inf"),
    ({"reward": -INF}, "the reward must be finite in float32, got -inf"),
    ({"reward": 1e39}, "the reward must be finite in float32, got 1e+39"),
    ({"reward": -(10**39)}, "the reward must be finite in float32, got -1e+39"),
    ({"reward": -(10**400)}, "the reward must be finite in float32, got -inf"),
    ({"observation": np.float32([1, NAN])},
     "the observation must be finite in float32, got nan at [1]"),
    ({"observation": np.float32([-INF, 1])},
     "the observation must be finite in float32, got -inf at [0]"),
    ({"observation": np.array([1, 1e39])},
     "the observation must be finite in float32, got 1e+39 at [1]"),
    ({"observation": np.array([-1e39, 1]), "dtype": "float64"},
     "the observation must be finite in float32, got -1e+39 at [0]"),
    ({"observation": [0.0, NAN]}, "the observation must be finite in float32, got nan at [1]"),
]  # fmt: skip


@pytest.mark.parametrize(("kwargs", "problem"), NOT_FINITE, ids=str)
def test_what_float32_cannot_hold_is_told_with_its_place(kwargs, problem):
    fault, transitions = fault_of(**kwargs)
    assert str(fault) == f"{WHERE}{problem}; correct the env"
    assert type(fault) is EnvNotFinite and fault.exit_code == 1
    assert (transitions, fault.env_steps) == (1, 1)


@pytest.mark.parametrize("size", [33, 128])
def test_it_is_found_among_many_numbers_too(size):
    space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)
    good, bad = np.zeros(size, np.float32), np.zeros(size, np.float32)
    bad[-2] = INF
    envs = make_envs(
        "test/Fixed-v0", seed=1, env_kwargs={"observation_space": space, "observation": good}
    )
    envs.reset()
    good[:] = bad  # the env's own array
    with pytest.raises(EnvNotFinite, match=rf"got inf at \[{size - 2}\]; correct the env"):
        envs.step(np.array([0]))


def test_numbers_that_are_huge_but_finite_are_none_of_it():
    huge = np.float32([3.4e38, -3.4e38])
    for observation in (huge, huge.astype(np.float64), huge.tolist()):
        envs = make_envs(
            "broken_envs:Broken-v0", seed=1, env_kwargs={"observation": observation, "reward": 3e38}
        )
        envs.reset()
        envs.step(np.array([0]))
        step = envs.step(np.array([0]))
        np.testing.assert_array_equal(step.observation[0], huge)
        assert step.reward[0] == np.float32(3e38)


FIVE = "(observation, reward, terminated, truncated, info)"
BROKEN = [
    ({"step": (np.zeros(2), 1.0, False, {})}, f"step must return {FIVE}, got a tuple of 4"),
    ({"step": None}, f"step must return {FIVE}, got NoneType"),
    ({"reward": None}, "the reward must be one number, got None"),
    ({"reward": "much"}, "the reward must be one number, got 'much'"),
    ({"terminated": None}, "terminated must be True or False, got None"),
    ({"truncated": "False"}, "truncated must be True or False, got 'False'"),
    ({"terminated": np.array([True, False])}, "terminated must be True or False, got shape (2,)"),
    ({"truncated": 0.5}, "truncated must be True or False, got 0.5"),
    ({"observation": np.zeros(1, np.float32)},
     "the observation must be of shape (2,), got shape (1,)"),
    ({"observation": np.zeros(1)}, "the observation must be of shape (2,), got shape (1,)"),
    ({"observation": np.zeros((1, 2))}, "the observation must be of shape (2,), got shape (1, 2)"),
    ({"observation": np.float32(1)}, "the observation must be of shape (2,), got np.float32(1.0)"),
    ({"observation": 3.0}, "the observation must be of shape (2,), got 3.0"),
    ({"observation": [[1.0], [2.0, 3.0]]},
     "the observation must be an array of shape (2,), got a list of 2"),
    ({"observation": np.zeros(2, complex)},
     "the observation must be of dtype float32, got complex128"),
    ({"observation": ["a", "b"]}, "the observation must be of dtype float32, got <U1"),
    ({"observation": {}}, "the observation must be of shape (2,), got {}"),
]  # fmt: skip


@pytest.mark.parametrize(("kwargs", "problem"), BROKEN, ids=str)
def test_what_breaks_the_interface_is_told_in_one_line(kwargs, problem):
    fault, _ = fault_of(**kwargs)
    assert str(fault) == f"{WHERE}{problem}; correct the env"
    assert type(fault) is EnvContractError and isinstance(fault, EnvError)
    assert fault.exit_code == 2


SEVERAL = (
    "; an env of several rewards needs a wrapper that makes one of them: env_wrapper = "
    '"mo_gymnasium.wrappers:LinearReward" adds them up, weighted by env_wrapper_kwargs = '
    "{ weight = [...] }"
)


@pytest.mark.parametrize(
    ("reward", "got"),
    [(np.ones(3), "shape (3,)"), ([1.0, 2.0], "a list of 2"), ((1.0, 2.0), "a tuple of 2")],
)
def test_several_rewards_at_once_are_told_with_what_makes_one_of_them(reward, got):
    fault, _ = fault_of(reward=reward)
    assert str(fault) == f"{WHERE}the reward must be one number, got {got}{SEVERAL}"
    with pytest.raises(EnvContractError) as caught:
        as_rewards(np.ones((2, 3)), 2)
    assert str(caught.value) == f"the rewards must be 2 numbers, got shape (2, 3){SEVERAL}"


def test_a_step_of_too_few_things_is_told_under_a_time_limit_too():
    """Gymnasium's wrapper takes the step's result apart before we do."""
    four = (np.zeros(2, np.float32), 1.0, False, {})
    fault, _ = fault_of(env_id="BrokenLimited-v0", step=four)
    assert type(fault) is EnvContractError
    assert f"step must return {FIVE} (not enough values to unpack" in str(fault)


OTHER_SPACES = [
    (gym.spaces.Box(0, 255, (3,), np.uint8), np.zeros(1, np.uint8),
     "of shape (3,), got shape (1,)"),
    (gym.spaces.Box(0, 255, (3,), np.uint8), np.ones(3), "of dtype uint8, got float64"),
    (gym.spaces.Box(0, 1, (3,), np.bool_), np.ones(3, np.uint8), "of dtype bool, got uint8"),
    (gym.spaces.Box(0, 255, (1, 4, 4), np.uint8), np.zeros((4, 4, 1), np.uint8),
     "of shape (1, 4, 4), got shape (4, 4, 1)"),
    (gym.spaces.Discrete(6), 6, "a whole number from 0 to 5, got 6"),
    (gym.spaces.Discrete(6), np.int64(-1), "a whole number from 0 to 5, got -1"),
    (gym.spaces.Discrete(6), 1.0, "a whole number, got 1.0"),
    (gym.spaces.Discrete(6), np.array([1]), "a whole number, got shape (1,)"),
]  # fmt: skip


@pytest.mark.parametrize(("space", "observation", "problem"), OTHER_SPACES, ids=str)
def test_observations_of_every_kind_of_space_are_looked_at(space, observation, problem):
    got = message(space=space, observation=observation)
    assert got == f"{WHERE}the observation must be {problem}; correct the env"


@pytest.mark.parametrize("flag", [np.True_, 1, np.array(True), np.array([1])])
def test_flags_that_make_sense_are_taken(flag):
    envs = make_envs("broken_envs:Broken-v0", seed=1, env_kwargs={"truncated": flag})
    envs.reset()
    assert not envs.step(np.array([0])).truncated[0]
    step = envs.step(np.array([0]))
    assert step.truncated[0] and not step.terminated[0] and len(step.episodes) == 1


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"reset": np.zeros(2, np.float32)},
         "reset must return an observation and an info dict, got ndarray"),
        ({"reset": (np.float32([NAN, 0]), {})},
         "the observation must be finite in float32, got nan at [0]"),
        ({"reset": (np.zeros(3, np.float32), {})},
         "the observation must be of shape (2,), got shape (3,)"),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_a_later_reset_is_looked_at_too(vectorization, changes, problem):
    """The third reset: make_envs has made one of its own; a worker's env was not reset there."""
    fault, transitions = fault_of(at=0, vectorization=vectorization, length=2, **changes)
    episode = 1 if vectorization == "sync" else 2
    where = f"env 0 (broken_envs:Broken-v0), reset of its episode {episode}: "
    assert str(fault) == f"{where}{problem}; correct the env"
    assert (transitions, fault.env_steps) == (2 * episode, 0)


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_of_several_envs_the_one_that_did_it_is_named_and_its_transition(
    monkeypatch, tmp_path, vectorization
):
    """Env 0 ended an episode a step before: env 2's is the second transition of the time step."""
    monkeypatch.setattr(async_driver, "cores", lambda: 2)
    (tmp_path / "uneven_envs.py").write_text(
        MODULE.replace("Broken", "Uneven")
        + """
class Three(Uneven):
    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        if seed is not None and not hasattr(self, "first"):
            self.first = seed
        return result

    def step(self, action):
        self.length, self.at = (2, 9) if self.first == SEEDS[0] else (9, 9)
        if self.first == SEEDS[2]:
            self.at = 3
        return super().step(action)

from targetnet.envs.seeding import episode_seed
SEEDS = [episode_seed(1, env, 0) for env in range(3)]
gym.register("Three-v0", Three)
"""
    )
    envs = make_envs(
        "uneven_envs:Three-v0", 3, seed=1, vectorization=vectorization, env_kwargs={"reward": NAN}
    )
    try:
        envs.reset()
        for _ in range(2):
            envs.step(np.zeros(3, int))
        with pytest.raises(EnvNotFinite) as raised:
            envs.step(np.zeros(3, int))
    finally:
        envs.close()
        for name in ("Uneven-v0", "UnevenLimited-v0", "Three-v0"):
            gym.registry.pop(name, None)
        sys.modules.pop("uneven_envs", None)
    assert str(raised.value).startswith(
        "env 2 (uneven_envs:Three-v0), step 3 of its episode 0: the reward must be finite"
    )
    assert raised.value.env_steps == 2


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_an_exception_of_the_envs_own_is_the_cause_with_its_traceback(vectorization):
    fault, _ = fault_of(raises=True, vectorization=vectorization, num_envs=2)
    assert str(fault) == (f"{WHERE}RuntimeError was raised (not today, not here); correct the env")
    assert type(fault) is EnvFailed and fault.exit_code == 1
    if vectorization == "sync":
        assert type(fault.__cause__) is RuntimeError
    else:
        assert 'raise RuntimeError("not today' in str(fault.__cause__)
        assert "EnvFailed" not in str(fault.__cause__)


@pytest.mark.parametrize(
    ("kwargs", "kind"),
    [({"reward": NAN}, EnvNotFinite), ({"reward": None}, EnvContractError)],
)
def test_a_worker_says_the_same_as_the_loop_in_one_process(kwargs, kind):
    messages = [fault_of(num_envs=3, vectorization=v, **kwargs)[0] for v in ("sync", "async")]
    assert str(messages[0]) == str(messages[1])
    assert {type(fault) for fault in messages} == {kind}


def test_an_env_that_raises_in_its_very_first_reset_is_named():
    class Never(gym.Env):
        observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            raise OSError("no such ROM")

    gym.register("test/Never-v0", Never)
    with pytest.raises(
        EnvFailed, match=r"its first reset: OSError was raised \(no such ROM"
    ) as got:
        make_envs("test/Never-v0", seed=1)
    assert isinstance(got.value.__cause__, OSError)
    del gym.registry["test/Never-v0"]


@pytest.mark.parametrize(
    "reward",
    [np.full(1, 3.0), np.full(1, 3, np.float32), np.full((1, 1), 3), np.array(3.0), np.int8(3)],
    ids=repr,
)
def test_a_reward_of_one_number_is_that_number_in_whatever_array_it_comes(reward):
    envs = make_envs("broken_envs:Broken-v0", seed=1, env_kwargs={"reward": reward})
    envs.reset()
    paid = [envs.step(np.array([0])).reward.tolist() for _ in range(3)]
    assert paid == [[1.0], [3.0], [1.0]]
    envs.close()


def test_so_are_those_of_a_vector_env():
    assert as_rewards(np.array([[1], [2], [3]]), 3).tolist() == [1, 2, 3]
    with pytest.raises(EnvContractError, match=r"must be 3 numbers, got shape \(3, 2\)"):
        as_rewards(np.ones((3, 2)), 3)


# Vector envs.


class Many(gym.vector.VectorEnv):
    """Two numbers each; `changes` are of its third step, of which `row` is env 1's observation."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}  # noqa: RUF012
    single_action_space = gym.spaces.Discrete(2)

    def __init__(self, num_envs, space=None, row=None, ends=(), **changes):
        self.num_envs, self.row, self.ends, self.changes = num_envs, row, ends, changes
        self.single_observation_space = space or gym.spaces.Box(-9, 9, (2,), np.float32)

    def seen(self):
        space = self.single_observation_space
        rows = np.zeros((self.num_envs, *space.shape), space.dtype)
        if self.t == 3 and self.row is not None:
            rows = rows.astype(np.asarray(self.row).dtype)
            rows[1] = self.row
        return self.changes.get("observation", rows) if self.t == 3 else rows

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self.seen(), {}

    def step(self, actions):
        self.t += 1
        no = np.zeros(self.num_envs, bool)
        ended = no.copy()
        if self.t == 2:
            ended[list(self.ends)] = True
        result = {"reward": np.ones(self.num_envs), "terminated": ended, "truncated": no}
        if self.t == 3:
            if self.changes.get("raises"):
                raise RuntimeError("not today")
            if "step" in self.changes:
                return self.changes["step"]
            result |= {k: v for k, v in self.changes.items() if k != "observation"}
        return self.seen(), *result.values(), {}


ENV_1 = "env 1 (test/Many-v0), step 3 of its episode 0: "
MANY = [
    ({"reward": np.array([1, NAN, 1])},
     f"{ENV_1}the reward must be finite in float32, got nan"),
    ({"reward": np.array([1, 1e39, 1])},
     f"{ENV_1}the reward must be finite in float32, got 1e+39"),
    ({"row": np.float32([0, INF])},
     f"{ENV_1}the observation must be finite in float32, got inf at [1]"),
    ({"row": np.array([1e39, 0])},
     f"{ENV_1}the observation must be finite in float32, got 1e+39 at [0]"),
    ({"row": np.array([NAN, 0]), "ends": (1,)},
     "env 1 (test/Many-v0), reset of its episode 1: the observation must be finite in float32, "
     "got nan at [0]"),
    ({"reward": 1.0},
     "envs 0 to 2 (test/Many-v0), step: the rewards must be 3 numbers, got 1.0"),
    ({"reward": np.ones(1)},
     "envs 0 to 2 (test/Many-v0), step: the rewards must be 3 numbers, got shape (1,)"),
    ({"reward": None},
     "envs 0 to 2 (test/Many-v0), step: the rewards must be 3 numbers, got None"),
    ({"terminated": False},
     "envs 0 to 2 (test/Many-v0), step: terminated must be 3 times True or False, got False"),
    ({"truncated": np.array([0, 2, 1])},
     "envs 0 to 2 (test/Many-v0), step: truncated must be True or False for each env, got 2"),
    ({"observation": np.zeros(2, np.float32)},
     "envs 0 to 2 (test/Many-v0), step: the observation must be of shape (3, 2), got shape (2,)"),
    ({"step": (1, 2, 3, 4)},
     f"envs 0 to 2 (test/Many-v0), step: step must return {FIVE}, got a tuple of 4"),
    ({"raises": True},
     "envs 0 to 2 (test/Many-v0), step: RuntimeError was raised (not today)"),
    ({"space": gym.spaces.Discrete(4), "row": 4},
     f"{ENV_1}the observation must be a whole number from 0 to 3, got 4"),
    ({"space": gym.spaces.Box(0, 9, (2,), np.uint8), "observation": np.zeros((1, 2), np.uint8)},
     "envs 0 to 2 (test/Many-v0), step: the observation must be of shape (3, 2), got shape (1, 2)"),
]  # fmt: skip


@pytest.mark.parametrize(("kwargs", "told"), MANY, ids=str)
def test_a_vector_envs_fault_names_the_env_where_there_is_one(kwargs, told):
    gym.register("test/Many-v0", vector_entry_point=Many)
    try:
        envs = make_envs(
            "test/Many-v0", 3, vectorization="vector_entry_point", seed=1, env_kwargs=kwargs
        )
    finally:
        del gym.registry["test/Many-v0"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envs.reset()
        for _ in range(2):
            envs.step(np.zeros(3, int))
        with pytest.raises(EnvFault) as raised:
            envs.step(np.zeros(3, int))
    assert str(raised.value) == f"{told}; correct the env"
    of_one = told.startswith("env 1")
    assert raised.value.env_steps == (1 if "reset of" in told else 2 if of_one else 1)


def test_an_env_in_the_graph_that_is_stepped_from_python_is_looked_at(monkeypatch):
    """As the compiled loop's evaluations do."""
    env_id = next(env_id for env_id in SPECS if "Catch" in env_id)
    envs = make_envs(env_id, seed=1)
    envs.reset()
    inner = envs._lanes[0].env.unwrapped
    real = inner._step
    monkeypatch.setattr(
        inner,
        "_step",
        lambda *fed: (lambda o, r, *rest: (o, np.float32([NAN]), *rest))(*real(*fed)),
    )
    with pytest.raises(EnvNotFinite, match=r"Catch-v0.*step 1 of its episode 0: the reward"):
        envs.step(np.array([0]))
    envs.close()
