"""Evaluations of a run: which policy each return is of."""

import contextlib
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.loops.evaluation import EvaluationEnvs
from targetnet.agents.run.evaluations import Evaluations


class Choice(gym.Env):
    """Pays the action that it gets, once."""

    observation_space = gym.spaces.Box(0, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), float(action), True, False, {}


@pytest.fixture
def envs():
    gym.register("test/Choice-v0", Choice)
    with contextlib.closing(EvaluationEnvs(DqnConfig(env_id="test/Choice-v0"))) as envs:
        yield envs
    del gym.registry["test/Choice-v0"]


def always(action):
    return lambda observation, legal: np.full(len(observation), action)


def test_averaged_weights_have_returns_of_their_own(envs):
    reported = []
    acting = SimpleNamespace(greedy_averaged=always(1))
    parts = SimpleNamespace(
        agent=SimpleNamespace(config=envs.config, greedy=always(0), acting=acting),
        control=SimpleNamespace(state=SimpleNamespace(env_step=7), evaluating=False, stopped=False),
        clock=SimpleNamespace(stopped=contextlib.nullcontext),
        reporter=SimpleNamespace(evaluation=lambda *of: reported.append(of)),
        display=SimpleNamespace(
            line=lambda text: None, evaluating=lambda _: contextlib.nullcontext(lambda *_: None)
        ),
        steering=SimpleNamespace(safe_point=lambda: None),
        scheduler=SimpleNamespace(give=lambda: None),
    )
    evaluations = Evaluations(parts, envs, due=0, check_is_due=False)
    evaluations.make(2)
    assert reported == [([0.0, 0.0], [1.0, 1.0], 7)]
