"""The controllers that come with targetnet, as functions: no run, no TensorFlow."""

import dataclasses
import json

import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.run_keys import CONTROLLERS
from targetnet.agents.controllers.bandit import period_bandit
from targetnet.agents.controllers.choice import controller_of
from targetnet.agents.controllers.copies import copy_when_far, copy_when_fit
from targetnet.agents.controllers.run_view import Fit, RunView
from targetnet.rl_core.errors import ConfigError

SEEN = RunView(
    env_step=1_000, env_steps=9_000, update=250, target_age=30, live={"sync_period": 500},
    episodes=0, returns=(), curves={}, fit=Fit(error=0.5, error_after=2.0, distance=0.1),
)  # fmt: skip


def seen(**changes):
    return dataclasses.replace(SEEN, **changes)


@pytest.mark.parametrize(
    ("share", "min_age", "copies"), [(0.26, 30, True), (0.25, 30, False), (0.26, 31, False)]
)
def test_a_copy_when_the_fit_is_good(share, min_age, copies):
    """0.5 is a quarter of 2: below 0.26 of it."""
    answer = copy_when_fit(SEEN, {}, share=share, min_age=min_age)
    assert answer == ({"do": "sync"} if copies else None)


@pytest.mark.parametrize(
    ("distance", "min_age", "copies"), [(0.1, 30, True), (0.11, 30, False), (0.1, 31, False)]
)
def test_a_copy_when_online_is_far_from_the_target(distance, min_age, copies):
    answer = copy_when_far(SEEN, {}, distance=distance, min_age=min_age)
    assert answer == ({"do": "sync"} if copies else None)


def test_no_copy_right_after_a_copy():
    assert copy_when_far(seen(target_age=0), {}, distance=0.0) is None


@pytest.mark.parametrize("controller", [copy_when_fit, copy_when_far])
def test_without_a_rule_in_the_graph_there_is_nothing_to_go_by(controller):
    with pytest.raises(ConfigError, match="needs prepared"):
        controller(seen(fit=None), {})


def test_another_rule_measures_no_fit():
    with pytest.raises(ConfigError, match="needs prepared"):
        copy_when_fit(seen(fit=Fit(None, None, 0.1)), {})


def test_a_bandit_by_hand():
    memory, live = {}, {"sync_period": 500}

    def call(episodes, *returns):
        how = {"periods": [10, 20], "window": 2}
        answer = period_bandit(seen(episodes=episodes, returns=returns, live=live), memory, **how)
        live.update(answer or {})
        assert json.loads(json.dumps(memory)) == memory
        return answer

    assert call(0) is None  # no episode has ended: the config's period stays
    assert call(2, 1.0, 3.0) == {"sync_period": 10}  # mean 2: each period is tried first
    assert call(3, 1.0, 3.0, 5.0) == {"sync_period": 20}  # gain 3 of 10
    assert call(3, 1.0, 3.0, 5.0) is None  # nothing new
    # Gain -1 of 20; mean size 2, so the doubt is 2 * sqrt(log 2) = 1.67 for both: 10 is better.
    assert call(4, 1.0, 3.0, 5.0, 4.0) == {"sync_period": 10}
    # Gain 0.5 of 10; the first play is out of the window: [20: -1, 10: 0.5], 10 stays.
    assert call(6, 5.0, 4.0, 4.0, 5.0) is None
    assert memory["plays"] == [[1, -1.0], [0, 0.5]]
    # Gain -8.5 of 10; the window has 10 alone: 20 is tried again.
    assert call(7, -4.0) == {"sync_period": 20}


def test_a_bandit_doubts_what_it_played_seldom():
    """Means 1 and 0.9, 3 plays and 1; scale 0.975: doubts 0.66 and 1.15."""
    plays = [[0, 1.0], [0, 1.0], [0, 1.0], [1, 0.9]]
    memory = {"episodes": 8, "mean": 5.0, "plays": plays}
    answer = period_bandit(seen(episodes=9, returns=(6.0,)), memory, periods=[10, 20])
    assert answer == {"sync_period": 20}
    memory = {"episodes": 8, "mean": 5.0, "plays": plays}
    greedy = period_bandit(seen(episodes=9, returns=(6.0,)), memory, periods=[10, 20], bonus=0.0)
    assert greedy == {"sync_period": 10}


@pytest.mark.parametrize(
    "arguments",
    [
        {"periods": [5]},
        {"periods": [5, 5]},
        {"periods": [5, 0]},
        {"periods": "57"},
        {"window": 3},
        {"window": 40.0},
        {"bonus": -1.0},
        {"bonus": float("inf")},
    ],
)
def test_a_bandit_refuses_what_is_no_choice(arguments):
    with pytest.raises(ConfigError, match=r"(periods|window) must be"):
        controller_of(DqnConfig(controller="period_bandit", controller_args=arguments))


def test_each_shipped_one_has_its_name():
    measured = ("sync_fit", "sync_distance")
    for name in CONTROLLERS:
        config = DqnConfig(controller=name, prepared=measured)
        assert controller_of(config).__name__ == name
    assert controller_of(DqnConfig()) is None


def test_mistakes_in_a_config_are_one_line(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    functions = "def rule(seen): ...\ndef good(seen, memory, a=1): ..."
    (tmp_path / "mine_to_steer.py").write_text(functions)
    with pytest.raises(ConfigError, match=r"no controller 'period_bandti'.*did you mean"):
        DqnConfig(controller="period_bandti")
    for name, args, message in (
        ("no_such_module:f", {}, r"controller 'no_such_module:f' cannot be imported"),
        ("mine_to_steer:god", {}, r"no function 'god'; did you mean 'good'"),
        ("mine_to_steer:rule", {}, r"must take \(seen, memory\)"),
        ("mine_to_steer:good", {"b": 1}, r"takes no 'b'; it takes a"),
        ("period_bandit", {"period": [1]}, r"takes no 'period'.*did you mean 'periods'"),
    ):
        with pytest.raises(ConfigError, match=message) as error:
            controller_of(DqnConfig(controller=name, controller_args=args))
        assert "\n" not in str(error.value)
