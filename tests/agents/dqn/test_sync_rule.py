"""When the target is copied where the run decides it: growing periods, a good fit, a distance."""

import dataclasses

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.sync_keys import SyncKeys
from targetnet.agents.dqn.sync_rule import RuleCounts, RuleNumbers, RuleState, next_sync
from targetnet.rl_core.errors import ConfigError, RlCoreError
from targetnet.rl_core.schedules import Linear
from tests.agents.dqn.several import become

SYNC_RULES = SyncKeys.switches("sync")
RULED = {"prepared": list(SYNC_RULES), "updates_per_learn": 2, "sync_fit_updates": 3}


@dataclasses.dataclass
class Twin:
    """The rule in Python, of float32 numbers, one update at a time."""

    window: int = 3
    age: int = 0
    copies: int = 0
    base: int = 0
    period: float = 0.0
    error: float = 0.0
    after: float = 0.0

    def copied(self, live, td_error, distance):
        self.age += 1
        if live["sync_growth"] == 0 or self.base != live["sync_period"]:
            self.base, self.period = live["sync_period"], np.float32(live["sync_period"])
        period = int(np.round(self.period))
        if live["max_target_age"]:
            period = min(period, live["max_target_age"])
        n = min(self.age, self.window)
        square = np.mean(np.square(td_error), dtype=np.float32)
        self.error = np.float32(self.error + (square - self.error) / np.float32(n))
        if self.age <= self.window:
            self.after = self.error
        fits = self.age > self.window and self.error < live["sync_fit"] * self.after
        far = live["sync_distance"] > 0 and distance >= live["sync_distance"]
        due = self.age >= period or (self.age >= live["min_target_age"] and (fits or far))
        if due:
            self.copies, self.age = self.copies + 1, 0
            self.period = np.float32(self.period * np.float32(1 + live["sync_growth"]))
        return due


def relative_distance(online, target):
    apart = sum(np.sum(np.square(online[name] - target[name])) for name in online)
    return np.sqrt(apart / sum(np.sum(np.square(target[name])) for name in online))


RULES = {
    "growth": {"sync_period": 2, "sync_growth": 0.5},
    "growth and a limit": {"sync_period": 2, "sync_growth": 0.5, "max_target_age": 5},
    "fit": {"sync_period": 15, "sync_fit": 0.95},
    "fit of a least age": {"sync_period": 15, "sync_fit": 1.0, "min_target_age": 7},
    "distance": {"sync_period": 15, "sync_distance": 0.08},
    "all": {"sync_period": 6, "sync_growth": 0.1, "sync_fit": 0.8, "sync_distance": 0.12},
}


@pytest.mark.cases(0)
@pytest.mark.parametrize("rule", RULES)
def test_the_target_is_copied_when_a_twin_in_python_says_so(lab, rule):
    agent, twin, copied = lab.filled(**RULED, learning_rate=0.02), Twin(), []
    live = agent.hyperparameters
    live.update(RULES[rule])
    target = lab.weights(agent, "target")
    for _ in range(40):
        stats = agent.learn(stats=True)
        online = lab.weights(agent, "online")
        due = twin.copied(live, stats.td_error, relative_distance(online, target))
        now = lab.weights(agent, "target")
        assert lab.same(now, online) == due
        assert lab.same(now, target) != due
        assert agent.learner.target_age == twin.age
        target = now
        copied.append(due)
    reading = agent.learner.watch.read()
    assert reading.counts.syncs == sum(copied) > 2
    assert reading.counts.update == 40 - copied[::-1].index(True)
    assert reading.distance == pytest.approx(relative_distance(online, target), rel=1e-4)
    # Each rule makes copies that the age sync_period alone would not.
    apart = np.diff(np.flatnonzero(copied))
    assert set(apart) != {RULES[rule]["sync_period"]}


def test_a_period_grows_by_its_share_at_each_copy(lab):
    """2, 3, 4.5 -> 4, 6.75 -> 7, 10.125 -> 10: a half is rounded to the even number."""
    agent = lab.filled(**RULED)
    agent.hyperparameters.update(sync_period=2, sync_growth=0.5)
    ages = []
    for _ in range(2 + 3 + 4 + 7 + 10):
        agent.learn()
        ages.append(agent.learner.target_age)
    ends = np.flatnonzero(np.array(ages) == 0) + 1
    assert ends.tolist() == [2, 5, 9, 16, 26]
    assert agent.learner.watch.read().numbers.period == 15.1875  # 2 * 1.5 ** 5
    agent.hyperparameters["sync_period"] = 3  # begins again
    for wanted in (1, 2, 0, 1, 2, 3, 0):  # 3, then 4.5
        agent.learn()
        assert agent.learner.target_age == wanted
    agent.hyperparameters["sync_growth"] = 0.0  # the period is sync_period again
    for wanted in (1, 2, 0, 1, 2, 0):
        agent.learn()
        assert agent.learner.target_age == wanted


@pytest.mark.thorough
def test_updates_in_one_call_decide_as_single_ones_do(lab):
    """Against copies of the first call, so a decision that lags by a call would be found."""
    single, fused = (lab.filled(**RULED) for _ in range(2))
    for agent in (single, fused):
        agent.hyperparameters.update(sync_period=3, sync_growth=0.3, sync_distance=0.1)
    for _ in range(5):
        for _ in range(8):
            single.learn()
        fused.learn(8)
        assert single.learner.watch.read().counts == fused.learner.watch.read().counts
    for name, value in single.state.weights().items():
        np.testing.assert_allclose(fused.state.weights()[name], value, rtol=1e-4, atol=1e-6)


def test_a_rule_at_rest_changes_no_bit(lab):
    plain, ruled = lab.filled(sync_period=5), lab.filled(sync_period=5, prepared=SYNC_RULES)
    for agent in (plain, ruled):
        for _ in range(12):
            agent.learn()
    assert lab.same(plain.state.weights(), ruled.state.weights())
    assert lab.same(lab.weights(plain, "target"), lab.weights(ruled, "target"))
    assert plain.learner.target_age == ruled.learner.target_age == 2


def test_without_a_rule_the_graph_has_no_variable_for_it(lab):
    names = lab.filled().state.read().variables
    assert not any("copy" in name for name in names)
    assert {"counters/copy_numbers", "counters/copy_counts"} <= {
        *lab.filled(sync_distance=0.5).state.read().variables
    }


def test_a_sync_by_hand_keeps_the_period_that_has_grown(lab):
    agent = lab.filled(**RULED)
    agent.hyperparameters.update(sync_period=2, sync_growth=0.5)
    for _ in range(3):
        agent.learn()
    agent.sync()
    assert agent.learner.target_age == 0
    for wanted in (1, 2, 0):  # still 3
        agent.learn()
        assert agent.learner.target_age == wanted


@pytest.mark.thorough
def test_a_checkpoint_has_all_of_it(lab):
    def ruled():
        agent = lab.filled(**RULED)
        agent.hyperparameters.update(sync_period=4, sync_growth=0.2, sync_fit=0.9)
        return agent

    agent, other = ruled(), ruled()
    for _ in range(9):
        agent.learn()
    become(other, agent)
    assert other.learner.watch.read() == agent.learner.watch.read()
    for one in (agent, other):
        for _ in range(9):
            one.learn()
    assert other.state.digest() == agent.state.digest()


@pytest.mark.thorough
def test_a_rewind_goes_back_to_the_period_of_then(lab):
    agent = lab.filled(**RULED, past_states=2)
    agent.hyperparameters.update(sync_period=2, sync_growth=0.5)
    agent.learn(2)
    before = agent.learner.watch.read()
    agent.state.snapshot()
    agent.learn(20)
    assert agent.learner.watch.read() != before
    agent.state.rewind()
    assert agent.learner.watch.read() == before


def test_the_watch_finds_the_last_copy_and_its_env_step(lab):
    """Updates 10 to 20 were made in env steps 100 to 140: the copy at update 16 was at 124."""
    agent = lab.filled(**RULED)
    agent.hyperparameters.update(sync_period=16, sync_growth=0.5)
    watch = agent.learner.watch
    agent.learn(10)
    first, found = watch.look(100, 10, None)
    assert (first, found) == ((100, 10, 0), None)
    agent.learn(10)
    second, found = watch.look(140, 20, first)
    assert (second, found) == ((140, 20, 1), (124, 16))
    assert watch.look(140, 20, second) == (second, None)


NUMBERS, COUNTS = RuleNumbers(0.5, 2.0, 750.4), RuleCounts(500, 3, 1_700, 550)


def test_what_will_copy_next_is_said_in_words():
    live = {"sync_period": 500, "min_target_age": 1}
    reading = RuleState(20, NUMBERS, COUNTS, 0.01234)
    assert next_sync(live, reading) == "at age 500"
    assert next_sync(live | {"sync_growth": 0.1}, reading) == "at age 750"
    assert next_sync(live | {"sync_growth": 0.1, "max_target_age": 600}, reading) == "at age 600"
    assert next_sync(live | {"sync_growth": 0.1, "sync_period": 9}, reading) == "at age 9"
    assert next_sync(live | {"sync_fit": 0.2}, reading) == (
        "at age 500, or when the squared TD error is below 0.2 times its first (now 0.25)"
    )
    assert next_sync(live | {"sync_distance": 0.05, "min_target_age": 90}, reading) == (
        "at age 500, before that from age 90 on, or when the distance is 0.05 (now 0.0123)"
    )


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match=r"sync_growth.*leave its schedule out"):
        DqnConfig(sync_growth=0.1, sync_period=Linear(start=1, end=9, steps=9))
    with pytest.raises(ConfigError, match=r"'sync_fitt' is no value that can be prepared"):
        DqnConfig(prepared=("sync_fitt",))


def test_a_rule_that_was_not_prepared_says_so(lab):
    agent = lab.used()
    with pytest.raises(RlCoreError, match=r'sync_fit.*prepared = \["sync_fit"\]'):
        agent.hyperparameters["sync_fit"] = 0.5
    with pytest.raises(
        RlCoreError, match=r"max_target_age.*sync_growth, sync_fit or sync_distance"
    ):
        agent.hyperparameters["max_target_age"] = 50
