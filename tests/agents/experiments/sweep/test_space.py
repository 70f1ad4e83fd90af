"""Keys with their ranges and values: what is taken, what is refused, which config a trial has."""

import pytest

from targetnet.agents.config.files import load_config
from targetnet.agents.experiments.sweep.space import Categories, Range, Space
from targetnet.rl_core.errors import ConfigError

BASE = load_config("cartpole")

GOOD = [
    ("sync_period=10..1000:log", Range(10, 1000, True, True)),
    ("sync_period = 10..1000", Range(10, 1000, False, True)),
    ("batch_size=8..64:linear", Range(8, 64, False, True)),
    ("learning_rate=1e-4..1e-2:log", Range(1e-4, 1e-2, True, False)),
    ("max_grad_norm=1..10", Range(1.0, 10.0, False, False)),
    ("learning_rate.start=1e-4..1e-2:log", Range(1e-4, 1e-2, True, False)),
    ("sync_period.start=5..50", Range(5, 50, False, True)),
    ("epsilon.steps=100..9_000:log", Range(100, 9_000, True, True)),
    ("batch_size=32,64,128", Categories({32: 32, 64: 64, 128: 128})),
    ("double=true,false", Categories({True: True, False: False})),
    ("vectorization=sync,async", Categories({"sync": "sync", "async": "async"})),
    ("hidden=[64],[64, 64]", Categories({"[64]": [64], "[64, 64]": [64, 64]})),
]


@pytest.mark.parametrize(("text", "axis"), GOOD)
def test_a_key_has_a_range_or_values(text, axis):
    (name, found), *others = Space(BASE, [text]).axes.items()
    assert (name, found, others) == (text.partition("=")[0].strip(), axis, [])
    if isinstance(axis, Range):  # 1 == 1.0
        assert type(found.low) is type(axis.low) is (int if axis.whole else float)


BAD = [
    ([], "a sweep needs at least one key to search"),
    (["sync_period"], "--over wants NAME=LOW..HIGH"),
    (["sync_period="], "--over wants NAME=LOW..HIGH"),
    (["sync_perod=1..5"], "sync_perod: no such key of a config; did you mean 'sync_period'?"),
    (["sync_period=5..5"], "the range is empty: 5 must be below 5"),
    (["sync_period=9..5"], "the range is empty: 9 must be below 5"),
    (["sync_period=0..5:log"], "a log range must begin above 0, got 0"),
    (["sync_period=1.5..5"], "both ends must be whole numbers, got 1.5..5"),
    (["sync_period=1..5:lgo"], "a range is linear or log, got 'lgo'; did you mean 'log'?"),
    (["sync_period=1..x"], "a range is LOW..HIGH or LOW..HIGH:log, got '1..x'"),
    (["sync_period=0..5"], "--over sync_period=0: sync_period must be a whole number"),
    (["batch_size=32,0"], "--over batch_size=0: batch_size"),
    (["batch_size=32]\nseed = [1, 2"], "the values of one key are wanted"),
    (["batch_size=32"], "one value leaves nothing to search: --set batch_size=32"),
    (["batch_size=32,64,32"], "a value is there twice"),
    (["batch_size=32,64", "batch_size=8..9"], "--over has 'batch_size' twice"),
    (["seed=1,2"], "seed must be the same for all trials: the sweep chooses the seeds"),
    (["env_id=CartPole-v1,Acrobot-v1"], "env_id must be the same for all trials"),
    (["eval_period=100,200"], "eval_period must be the same for all trials"),
    (["checkpoint_keep=1,2"], "checkpoint_keep must be the same for all trials"),
    (["batch_size.start=1..2"], "batch_size is no schedule in this config"),
    (["epsilon.sart=0..1"], "its schedule has start, end, steps, begin, and no such part; did"),
    (["epsilon.schedule=linear,geometric"], "its schedule has start, end, steps, begin, and no"),
    (["epsilon=0..1", "epsilon.start=0..1"], "--over has both epsilon.start and epsilon"),
    (["munchausen_alpha=0..1"], "munchausen_alpha: it has no effect here: it needs"),
    (["batch_size=1\nseed = 3,4"], "batch_size should be a whole number, got '1\\nseed = 3'"),
]


@pytest.mark.parametrize(("texts", "message"), BAD)
def test_what_cannot_be_searched_is_refused_in_one_line(texts, message):
    with pytest.raises(ConfigError) as error:
        Space(BASE, texts)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_trial_has_the_values_in_its_config_and_all_else_from_the_base():
    space = Space(BASE, ["sync_period=10..1000:log", "learning_rate.start=1e-4..1e-2:log"])
    config = space.config({"sync_period": 77, "learning_rate.start": 3e-3}, {"seed": 5})
    assert (config.sync_period, config.seed, config.learning_rate.start) == (77, 5, 3e-3)
    assert config.learning_rate.end == BASE.learning_rate.end
    same = {"sync_period", "seed", "learning_rate"}
    assert config.model_dump(exclude=same) == BASE.model_dump(exclude=same)


def test_schedules_in_shares_are_those_of_the_trials_own_length():
    base = load_config(
        "cartpole",
        ["epsilon={schedule='linear', start=1.0, end=0.1, fraction=0.5}", "env_steps=10_000"],
    )
    config = Space(base, ["env_steps=1000..20000"]).config({"env_steps": 2_000})
    assert (config.env_steps, config.epsilon.steps) == (2_000, 1_000)


def test_values_that_no_config_has_together_are_refused_when_they_meet():
    space = Space(BASE, ["v_min=0.0,50.0", "v_max=40.0,100.0"])
    with pytest.raises(ConfigError, match="v_min"):
        space.config({"v_min": 50.0, "v_max": 40.0})
