"""A run whose schedules end long before it does says so at its start."""

import pytest

from targetnet.agents.config.early_ends import actions_at_the_end, early_ends, no_learning
from targetnet.agents.config.files import load_config, shipped_configs
from targetnet.agents.config.model import DqnConfig
from targetnet.rl_core.schedules import Constant, Geometric, Linear, Piecewise

RATE = Linear(start=1e-3, end=1e-5, steps=400)
LINE = (
    "schedules end long before the run's 1,000 env steps: learning_rate at env step 400; to follow "
    "the run's length: learning_rate = {{ {} }}"
)


def config(**values):
    return DqnConfig(env_steps=1_000, **({"epsilon": 0.1} | values))


@pytest.mark.parametrize(
    ("schedule", "table"),
    [
        (RATE, 'schedule = "linear", start = 0.001, end = 1e-05, fraction = 1'),
        (
            Geometric(start=1e-3, end=1e-5, steps=300, begin=100),
            'schedule = "geometric", start = 0.001, end = 1e-05, begin = 100, fraction = 0.9',
        ),
        (
            Piecewise(points=[[100, 1e-3], [400, 1e-4]], between="hold"),
            'schedule = "piecewise", fractions = [[0.25, 0.001], [1.0, 0.0001]], between = "hold"',
        ),
    ],
)
def test_the_line_has_the_name_the_env_step_and_a_table_that_fits(tmp_path, schedule, table):
    mine = config(learning_rate=schedule)
    assert early_ends(mine) == LINE.format(table)
    path = tmp_path / "mine.toml"
    path.write_text(f"env_steps = 1_000\nepsilon = 0.1\nlearning_rate = {{ {table} }}\n")
    fitted = load_config(path)
    assert early_ends(fitted) is None
    assert max(fitted.learning_rate.corners()) == 1_000
    assert fitted.learning_rate.extremes() == schedule.extremes()


def test_a_live_value_of_ones_own_is_named_with_the_key_that_mends_it():
    own = {"dropout": {"default": {"schedule": "linear", "start": 0.5, "end": 0.0, "steps": 100}}}
    line = early_ends(config(live=own, epsilon=RATE))  # epsilon alone would need no line
    table = '{ schedule = "linear", start = 0.5, end = 0, fraction = 1 }'
    assert "epsilon at env step 400, dropout at env step 100;" in line
    assert line.endswith(f"live.dropout.default = {table}")


def test_all_schedules_that_end_early_are_named_in_one_line():
    line = early_ends(config(learning_rate=RATE, tau=RATE, epsilon=RATE, discount=0.9))
    assert "tau at env step 400, learning_rate at env step 400, epsilon at env step 400" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"learning_rate": Linear(start=1e-3, end=1e-5, steps=500)},  # half of the run is enough
        {"learning_rate": Linear(start=1e-3, end=1e-5, fraction=0.1)},  # asked for as a share
        {"tau": Piecewise(fractions=[[0, 1.0], [0.1, 0.5]])},
        {"learning_rate": Constant(value=1e-3)},
        {"epsilon": RATE, "temperature": RATE, "boltzmann": True},  # exploration ends early
    ],
)
def test_nothing_is_said_of(values):
    assert early_ends(config(**values)) is None


@pytest.mark.parametrize("name", shipped_configs())
def test_no_shipped_config_has_such_a_schedule(name):
    assert early_ends(load_config(name)) is None


def test_a_shipped_config_that_is_made_longer_has():
    line = early_ends(load_config("cartpole", ["env_steps=500_000"]))
    assert "sync_period at env step 50,000, learning_rate at env step 50,000, epsilon" in line


def test_a_run_that_goes_on_longer_cannot_change_its_schedules_so_it_says_what_one_can_do():
    mine = config(learning_rate=Linear(start=1e-3, end=1e-5, fraction=0.4))
    assert early_ends(mine, resumed=True) == (
        "schedules end long before the run's 1,000 env steps: learning_rate at env step 400; its "
        "schedules stay as they began; --set or targetnet set gives another value"
    )


@pytest.mark.parametrize(
    ("action", "is_told"),
    [
        ({"every": 500}, True),
        ({"every": 400}, False),
        ({"every": 500, "until": 999}, False),
        ({"every": 500, "until": 1_000}, True),
    ],
    ids=str,
)
def test_an_action_at_the_very_end_is_told(action, is_told):
    """The weights that are saved are then freshly drawn ones, which never learned."""
    line = actions_at_the_end(config(actions=[{"do": "reset", "block": "head"} | action]))
    assert (line is not None) == is_told
    if line:
        assert "reset is due at env step 1,000" in line and "until = 999" in line


# A run that cannot learn.

PQN = {"rollout": 100, "batch_size": 50}
REMOTE = {"loop": "remote", "actors": 2, "actor_steps": 50, "replay_capacity": 5_000}


@pytest.mark.parametrize(
    ("values", "first"),
    [
        ({"learn_start": 1_000}, 1_000),
        ({"learn_start": 999, "learn_period": 1}, None),
        ({"learn_start": 997, "learn_period": 4}, 1_000),  # phases are due at 996 and 1,000
        ({"learn_start": 996, "learn_period": 4}, None),
        ({"learn_start": 0, "learn_period": 1_000}, 1_000),
        ({"learn_start": 0, "learn_period": 999}, None),
        ({"learn_start": 0, "learn_period": Linear(start=999, end=9, steps=50)}, None),
        ({"learn_start": 0, "learn_period": Constant(value=1_200)}, 1_200),
        ({"learn_start": 998, "learn_period": 1, "num_envs": 8}, None),  # it depends on the env
        ({"learn_start": 0, "batch_size": 5_000}, None),  # the same rows are drawn again
        (PQN | {"num_envs": 20, "rollout": 100}, 1_000),
        (PQN | {"num_envs": 19, "rollout": 100}, None),
        (REMOTE | {"learn_start": 1_000}, 1_000),
        # A free actor's last delivery of 50 env steps is learned from.
        (REMOTE | {"learn_start": 1_048, "actor_pace": "free"}, None),
        (REMOTE | {"learn_start": 1_049, "actor_pace": "free"}, 1_052),
    ],
    ids=str,
)
def test_a_run_that_makes_no_update_says_so_with_the_keys_to_change(values, first):
    line = no_learning(config(**values))
    if first is None:
        assert line is None
        return
    keys = ["rollout"] if "rollout" in values else ["learn_start", "learn_period"]
    assert line.startswith(
        f"this run makes no update: its first one would come at env step {first:,} at the earliest "
        f"({keys[0]} = "
    )
    assert line.endswith(
        f", and the run ends at 1,000; lower {' or '.join(keys)}, or raise env_steps"
    )


@pytest.mark.parametrize(
    ("rate", "is_told"),
    [
        (0.0, True),
        (Constant(value=0.0), True),
        (Linear(start=1e-3, end=0.0, fraction=1.0), False),
        (1e-3, False),
    ],
    ids=str,
)
def test_a_learning_rate_of_0_is_told(rate, is_told):
    line = no_learning(config(learn_start=0, learning_rate=rate))
    assert line == ("this run moves no weight while learning_rate is 0" if is_told else None)


@pytest.mark.parametrize("name", shipped_configs())
def test_every_shipped_config_learns(name):
    assert no_learning(load_config(name)) is None
