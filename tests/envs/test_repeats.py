"""Episodes that come back from their seeds; what is said of those that do not, and mends them."""

import itertools
import random
import time
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest

from targetnet.envs import make_envs
from targetnet.envs.seeding import SeedGlobals, episode_seed
from targetnet.rl_core.errors import EnvError
from tests.gymnasium_versions import TAXI

TOLD = "gives other results when an episode is repeated from its seed, so resume and replay"
MENDED = "; env_wrapper = 'seed_globals' mends that"
BY_HAND = "; let the env draw from its own np_random"


class Drawing(gym.Env):
    """Shows and pays what it draws, for ten steps."""

    # Shared by all envs of the class, as many envs have them.
    observation_space = gym.spaces.Box(-1e6, 1e6, (1,), np.float32)
    action_space = gym.spaces.Discrete(1_000)

    def draw(self) -> float:
        return float(self.np_random.random())

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.float32([self.draw()]), {}

    def step(self, action):
        self.t += 1
        return np.float32([self.draw()]), self.draw(), self.t == 10, False, {}


class Python(Drawing):
    def draw(self):
        return random.random()


class Numpy(Drawing):
    def draw(self):
        return float(np.random.randn())


class Samples(Drawing):
    def draw(self):
        return float(self.action_space.sample()) + float(self.observation_space.sample()[0])


class Wraps(gym.ActionWrapper):
    """Draws from a space of its own."""

    def __init__(self, env):
        super().__init__(env)
        self.action_space = gym.spaces.Discrete(900)

    def action(self, action):
        return self.action_space.sample()


class Acts(Drawing):
    """Shows the action that it got."""

    def step(self, action):
        return np.float32([action]), 0.0, False, False, {}


class Ignores(Drawing):
    """Never seeds its np_random."""

    def reset(self, *, seed=None, options=None):
        return super().reset()


class Seedless(Drawing):
    def reset(self):  # type: ignore[override]
        return super().reset()

    def draw(self):
        return float(self.np_random.random()) + random.random()


class Own(Drawing):
    def __init__(self):
        self.numbers = np.random.default_rng()

    def draw(self):
        return float(self.numbers.random())


class Map(Drawing):
    """The same in each episode, and another one in each env."""

    def __init__(self):
        self.place = random.random()

    def draw(self):
        return self.place


class Counts(Drawing):
    """The first step of an episode shows how many there were."""

    episodes = 0

    def draw(self):
        self.episodes += 1
        return self.episodes / 1_000


class Pays(Drawing):
    """Shows the same, and pays something else."""

    def step(self, action):
        observation, *_ = super().step(action)
        return observation, random.random(), False, False, {}


class Ends(Drawing):
    def step(self, action):
        observation, *_ = super().step(action)
        return observation, 0.0, random.random() < 0.2, False, {}


KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Drawing, Python, Numpy, Samples, Acts, Ignores, Seedless, Own, Map, Counts, Pays, Ends
    )
} | {"Wraps": lambda: Wraps(Acts())}  # fmt: skip


@pytest.fixture(autouse=True)
def registered():
    for name, kind in KINDS.items():
        gym.register(f"test/{name}-v0", kind)
    yield
    for name in KINDS:
        del gym.registry[f"test/{name}-v0"]


def said(name, num_envs=1, **options):
    """What a check says of the env."""
    envs = make_envs(f"test/{name}-v0", num_envs, seed=0, check=True, **options)
    envs.close()
    assert not envs.check_is_due
    return envs.not_repeated


def rows(name, num_envs=1, steps=25, **options):
    """Observations [T, N] and the driver's state."""
    envs = make_envs(f"test/{name}-v0", num_envs, seed=3, **options)
    found = [envs.reset().observation[:, 0].tolist()]
    actions = np.arange(num_envs)
    found += [envs.step(actions).observation[:, 0].tolist() for _ in range(steps)]
    state = envs.state()
    envs.close()
    return found, state


# What is said.


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Python", MENDED), ("Numpy", MENDED), ("Ignores", MENDED), ("Pays", MENDED),
        ("Ends", MENDED), ("Own", BY_HAND), ("Map", BY_HAND), ("Counts", BY_HAND),
    ],
)  # fmt: skip
def test_an_env_whose_episodes_do_not_come_back_is_told_with_what_mends_it(name, advice):
    line = said(name)
    assert line.startswith(f"test/{name}-v0 {TOLD}") and advice in line and "\n" not in line


@pytest.mark.parametrize("name", ["Drawing", "Samples", "Wraps", "Acts"])
def test_nothing_is_said_of_one_whose_episodes_come_back(name):
    assert said(name) == ""


@pytest.mark.parametrize("name", ["CartPole-v1", TAXI, "MinAtar/Seaquest-v1"])
def test_nor_of_well_known_ones(name):
    make_envs(name, seed=0, check=True).close()
    envs = make_envs(name, seed=0, check=True)
    assert envs.not_repeated == ""
    envs.close()


@pytest.mark.parametrize("name", ["Python", "Numpy", "Ignores", "Pays", "Ends", "Seedless"])
def test_what_is_said_to_mend_it_mends_it(name):
    assert said(name, wrapper="seed_globals") == ""


def test_the_advice_has_the_other_wrappers_too():
    assert said("Python", wrapper=f"{__name__}:Wraps").endswith(
        f"; env_wrapper = ['{__name__}:Wraps', 'seed_globals'] mends that"
    )


def test_what_a_wrapper_cannot_mend_is_told_under_it_too():
    assert BY_HAND in said("Own", wrapper="seed_globals")


def test_an_env_in_worker_processes_is_checked_in_this_one():
    assert MENDED in said("Python", 2, vectorization="async", env_kwargs={})


def test_without_a_seed_the_message_names_the_wrapper():
    with pytest.raises(EnvError, match=r"argument 'seed'.*; for an env without seeds: env_wrapper"):
        make_envs("test/Seedless-v0", seed=0)


# What the check leaves alone.


@pytest.mark.parametrize("name", ["Python", "Numpy", "Map", "Own"])
def test_global_random_numbers_are_as_they_would_be_without_it(name):
    states = []
    for check in (True, False):
        random.seed(1)
        np.random.seed(1)
        make_envs(f"test/{name}-v0", seed=0, check=check).close()
        states.append((random.random(), np.random.random()))
    assert states[0] == states[1]


class Watched(Drawing):
    tape: ClassVar[list[str]] = []
    numbers = itertools.count()

    def __init__(self):
        self.number = next(Watched.numbers)
        self.tape.append(f"make {self.number}")

    def reset(self, *, seed=None, options=None):
        self.tape.append(f"reset {self.number} {seed}")
        return super().reset(seed=seed)

    def close(self):
        self.tape.append(f"close {self.number}")


@pytest.fixture
def watched():
    gym.register("test/Watched-v0", Watched)
    Watched.tape.clear()
    Watched.numbers = itertools.count()
    yield Watched.tape
    del gym.registry["test/Watched-v0"]


def test_what_is_checked_is_closed_before_another_env_is_made(watched):
    envs = make_envs("test/Watched-v0", 2, seed=0, check=True)
    order = [line for line in watched if not line.startswith("reset")]
    assert order == ["make 0", "close 0", "make 1", "close 1", "make 2", "make 3"]
    first = episode_seed(0, env=0, episode=0)
    assert [line for line in watched if line.startswith(("reset 2", "reset 3"))] == [
        f"reset 2 {first}"  # as without the check
    ]
    envs.close()


def test_an_env_that_takes_long_to_make_is_made_once_and_compared_when_asked(monkeypatch, watched):
    clock = itertools.count(step=0.6)
    with monkeypatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: next(clock) * 2)
        envs = make_envs("test/Watched-v0", 2, seed=0, check=True)
    assert envs.check_is_due and envs.not_repeated == ""
    assert [line for line in watched if not line.startswith("reset")] == ["make 0", "make 1"]
    assert envs.check() == ""
    envs.close()
    for name, advice in (("Python", "if it draws from random or numpy.random"), ("Own", "if it")):
        envs = make_envs(f"test/{name}-v0", 2, seed=0)
        before = random.getstate()
        assert TOLD in envs.check() and envs.check().endswith(advice) is (name == "Python")
        assert random.getstate() == before
        envs.close()


class Hostile(Drawing):
    """Fails as told: in a reset after the first, in a step, in its end, or as long as it is one."""

    there = 0

    def __init__(self, fails=""):
        self.fails, self.resets = fails, 0
        Hostile.there += 1
        if fails == "alone" and Hostile.there > 1:
            raise RuntimeError("there is one already")
        if fails == "once" and Hostile.there > 1:
            raise RuntimeError("there was one already")

    def reset(self, *, seed=None, options=None):
        self.resets += 1
        if self.fails == "reset" and self.resets > 1:
            raise RuntimeError("no more resets")
        return super().reset(seed=seed)

    def step(self, action):
        if self.fails == "step":
            raise RuntimeError("no step")
        if self.fails == "nan":
            return np.float32([np.nan]), 0.0, False, False, {}
        return super().step(action)

    def close(self):
        Hostile.there -= self.fails != "once"
        if self.fails == "close":
            raise RuntimeError("no end")


@pytest.fixture
def hostile():
    gym.register("test/Hostile-v0", Hostile)
    Hostile.there = 0
    yield "test/Hostile-v0"
    del gym.registry["test/Hostile-v0"]


@pytest.mark.parametrize("fails", ["reset", "step", "nan", "close", "alone"])
def test_an_env_that_fails_is_left_to_the_call_that_needs_it(hostile, fails):
    envs = make_envs(hostile, seed=0, check=True, env_kwargs={"fails": fails})
    assert envs.not_repeated == ""


def test_an_env_that_can_be_made_once_is_told_how_to_leave_the_check_out(hostile):
    with pytest.raises(Exception, match=r"there was one already.*closed before it, see check_env"):
        make_envs(hostile, seed=0, check=True, env_kwargs={"fails": "once"})


class Strict(Drawing):
    """An illegal action ends everything; of both branches one choice is legal."""

    action_space = gym.spaces.MultiDiscrete([3, 4])

    def mask(self):
        return {"action_mask": np.eye(7, dtype=np.int8)[[self.t % 3, 3 + self.t % 4]].sum(0)}

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], self.mask()

    def step(self, action):
        assert action.tolist() == [self.t % 3, self.t % 4]
        observation, *rest = super().step(action)
        return observation, random.random(), *rest[1:-1], self.mask()


def test_the_check_takes_legal_actions():
    gym.register("test/Strict-v0", Strict)
    try:
        assert MENDED in said("Strict")  # it found that another reward was paid
    finally:
        del gym.registry["test/Strict-v0"]


def test_vector_envs_are_not_checked():
    envs = make_envs("CartPole-v1", 2, vectorization="vector_entry_point", seed=0, check=True)
    assert envs.not_repeated == envs.check() == "" and not envs.check_is_due
    envs.close()


# Episodes that come back.


@pytest.mark.cases(1)
@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize("name", ["Samples", "Wraps", "Python", "Numpy", "Seedless"])
def test_the_episodes_of_each_env_are_its_own_whoever_else_is_stepped(name, vectorization):
    """The spaces of these classes, `random` and `numpy.random` are one for all envs."""
    mends = {} if name in ("Samples", "Wraps") else {"wrapper": "seed_globals"}
    if vectorization == "async" and name == "Wraps":
        pytest.skip("made by a function of this module")
    both, state = rows(name, 2, vectorization=vectorization, **mends)
    first, _ = rows(name, 1, **mends)
    assert [row[:1] for row in both] == first
    assert both[0][0] != both[0][1]
    again = make_envs(f"test/{name}-v0", 2, seed=3, vectorization=vectorization, **mends)
    assert again.restore(state)[1] == []
    again.close()


def test_an_episode_is_its_seeds_alone():
    """From the second episode on as from the first: nothing is left of the one before."""
    whole, _ = rows("Samples")
    alone = Samples()
    seed = episode_seed(3, env=0, episode=1)
    alone.action_space.seed(seed + 1)
    alone.observation_space.seed(seed + 2)
    assert whole[11] == [alone.reset(seed=seed)[0].item()]


def test_seed_globals_leaves_them_to_everybody_else_as_they_were():
    envs = make_envs("test/Python-v0", 2, seed=0, wrapper="seed_globals")
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist()
    envs.reset()
    envs.step(np.array([0, 0]))
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    envs.close()


def test_the_spec_of_an_env_with_seed_globals_makes_it_again():
    env = SeedGlobals(gym.make("CartPole-v1"))
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert isinstance(again, SeedGlobals)
    np.testing.assert_array_equal(again.reset(seed=5)[0], env.reset(seed=5)[0], strict=True)


def test_a_space_that_takes_no_seed_or_is_not_there_keeps_nobody_from_a_reset():
    class Deaf(gym.spaces.Discrete):
        def seed(self, seed=None):
            raise NotImplementedError

    class Inside(gym.Env):
        @property
        def action_space(self):
            raise NotImplementedError

    class Quiet(Drawing):
        action_space = Deaf(2)

        def __init__(self):
            self.env = Inside()

    gym.register("test/Quiet-v0", Quiet)
    try:
        envs = make_envs("test/Quiet-v0", seed=0)
        envs.reset()
        envs.close()
    finally:
        del gym.registry["test/Quiet-v0"]
