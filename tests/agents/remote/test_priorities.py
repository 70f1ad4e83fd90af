"""Priorities of an actor's rows: by hand, and beside the transitions that the replay makes."""

import numpy as np
import pytest

from targetnet.agents.remote.numpy_policy import NumpyPolicy
from targetnet.agents.remote.priorities import td_errors
from targetnet.rl_core.errors import ConfigError
from tests.agents.remote.helpers import config
from tests.agents.remote.test_collector import DISCOUNT, Replay, collected, network

LIVE = {"discount": 0.5, "n_step": 1, "reward_scale": 1.0, "reward_clip": 0.0}


def delivery(rewards, terminated=(), autoreset=()):
    """One env: rewards of the steps from row 0 on; actions are all 0."""
    T = len(rewards)
    rows = {
        "action": np.zeros((T + 1, 1), np.int32),
        "reward": np.array([[0.0], *([r] for r in rewards)], np.float32),
        "terminated": np.zeros((T + 1, 1), bool),
        "autoreset": np.zeros((T + 1, 1), bool),
    }
    rows["autoreset"][0] = True
    for row in terminated:
        rows["terminated"][row] = True
    for row in autoreset:
        rows["autoreset"][row] = True
    return rows


# Values of two actions in rows 0 to 3; action 0 was taken.
Q = np.array([[1, 0], [2, 4], [0, 2], [8, 6]], np.float32)[:, None]


@pytest.mark.parametrize(
    ("live", "how", "wanted"),
    [
        # 1 + 0.5 * 4 - 1;  2 + 0.5 * 2 - 2;  3 + 0.5 * 8 - 0
        ({}, {}, [2, 1, 7]),
        # 1 + 0.5 * (2 + 0.5 * 2) - 1;  2 + 0.5 * (3 + 0.5 * 8) - 2;  the last one as above
        ({"n_step": 2}, {}, [1.5, 3.5, 7]),
        # Three steps from row 0: 1 + 0.5 * 2 + 0.25 * 3 + 0.125 * 8 - 1; then the delivery ends.
        ({"n_step": 3}, {}, [2.75, 3.5, 7]),
        ({"n_step": 9}, {}, [2.75, 3.5, 7]),
        # The step to row 2 terminated: 1 + 0.5 * 2 - 1;  2 - 2.
        ({"n_step": 3}, {"terminated": [2], "autoreset": [3]}, [1, 0, None]),
        # It was truncated: 1 + 0.5 * 2 + 0.25 * 2 - 1;  2 + 0.5 * 2 - 2.
        ({"n_step": 3}, {"autoreset": [3]}, [1.5, 1, None]),
        # Rewards of 0.5, 1, 1.
        ({"reward_scale": 0.5, "reward_clip": 1.0}, {}, [1.5, 0, 5]),
    ],
)
def test_errors_are_those_computed_by_hand(live, how, wanted):
    errors = td_errors(Q, delivery([1, 2, 3], **how), LIVE | live)
    assert errors.dtype == np.float32 and errors[3] == 0
    for error, by_hand in zip(errors[:3, 0], wanted, strict=True):
        assert by_hand is None or error == by_hand  # None: no step, which is never sampled


def test_errors_of_rescaled_values_are_of_their_returns():
    """The last of two steps terminates and pays 100: |h(100) - q|, not |100 - q|."""
    q = np.array([[9.2, 0], [3.0, 5.0], [0, 0]], np.float32)[:, None]
    errors = td_errors(q, delivery([0, 100], terminated=[2]), LIVE, value_rescaling=True)
    # h(100) = sqrt(101) - 1 + 0.1; h^-1(5) by bisection of h, then h of the half of it.
    assert errors[1, 0] == pytest.approx(abs(np.sqrt(101) - 0.9 - 3.0), abs=1e-5)
    assert errors[0, 0] == pytest.approx(abs(h(inverse_of_h(5.0) / 2) - 9.2), abs=1e-5)


def h(x):
    return np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + 1e-3 * x


def inverse_of_h(y):
    """By bisection."""
    low, high = -1e9, 1e9
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if h(middle) < y else (low, middle)
    return low


@pytest.mark.parametrize(
    ("n", "masks", "rescaled"),
    [(1, False, False), (3, False, False), (2, True, False), (2, True, True)],
)
def test_errors_are_those_of_the_transitions_that_the_replay_makes(n, masks, rescaled):
    of = config(
        prioritized=True, actor_priorities=True, env_kwargs={"masks": masks}, discount=DISCOUNT,
        value_rescaling=rescaled,
    )  # fmt: skip
    live = LIVE | {"n_step": n, "discount": DISCOUNT}
    replay, found = Replay(n, masks), []
    for actor in range(2):
        for got in collected(of, actor, 6, more=live):
            replay.store(got)
            valid = ~got.rows["autoreset"][1:]
            found += got.rows["priority"][:-1][valid].tolist()
    policy = NumpyPolicy(of, 3, None)
    policy.load(network())
    wanted = []
    s, a, r, d, then, *legal = replay._read()
    for i in range(int(replay._count())):
        best = policy.values(then[i : i + 1], 0, {})[0]
        best = best[legal[1][i]].max() if masks else best.max()
        target = r[i] + d[i] * best
        if rescaled:
            target = h(r[i] + d[i] * np.float64(inverse_of_h(best)))
        wanted.append(abs(target - policy.values(s[i : i + 1], 0, {})[0, a[i]]))
    np.testing.assert_allclose(sorted(found), sorted(wanted), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"prioritized": True, "head": "quantile", "loss": "huber"},
        {"prioritized": True, "munchausen": True},
    ],
    ids=str,
)
def test_where_actors_give_none_that_is_refused(settings):
    with pytest.raises(ConfigError, match="actor_priorities"):
        config().model_copy(update={"actor_priorities": True} | settings)
