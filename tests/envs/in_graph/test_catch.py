"""Catch in the graph: the rules are bsuite's, against episodes worked out by hand and a twin."""

import numpy as np
import pytest

from targetnet.envs.in_graph.catch import Catch

LAST = np.float32(1 - 2**-24)  # the largest float32 below 1
COMPILED_OR_NOT = pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])


def drawn(observation):
    return ["".join("o" if cell else "." for cell in row) for row in observation]


# ball begins   actions (0 left, 1 stay, 2 right)    the paddle's columns   paid
CATCHES = [
    (2,           [1, 1, 1, 1, 1, 1, 1, 1, 1],         [2] * 9,                      1),
    (0,           [0, 0, 1, 1, 1, 1, 1, 1, 1],         [1] + [0] * 8,                1),
    (4,           [2, 2, 2, 2, 2, 2, 2, 2, 0],         [3, 4, 4, 4, 4, 4, 4, 4, 3], -1),  # left
    (4,           [0, 0, 0, 0, 0, 2, 2, 2, 2],         [1, 0, 0, 0, 0, 1, 2, 3, 4],  1),  # last
    (3,           [1, 1, 1, 1, 1, 1, 1, 1, 1],         [2] * 9,                     -1),
]  # fmt: skip


@COMPILED_OR_NOT
@pytest.mark.parametrize(("ball", "actions", "paddle", "paid"), CATCHES)
def test_catch_plays_the_episodes_worked_out_by_hand(compiled, ball, actions, paddle, paid, runner):
    run = runner(Catch, compiled)
    state = run.begin(np.float32([[(ball + 0.5) / 5]]))
    for step, (action, column) in enumerate(zip(actions, paddle, strict=True), start=1):
        state, reward, terminated, observation = run.step(state, [action])
        board = [["."] * 5 for _ in range(10)]
        board[step][ball] = board[9][column] = "o"
        assert drawn(observation[0]) == ["".join(row) for row in board]
        assert (reward[0], terminated[0]) == ((paid, True) if step == 9 else (0, False))


def test_catch_begins_with_the_ball_above_and_the_paddle_in_the_middle(runner):
    run = runner(Catch, False)
    state = run.begin(np.float32([[0.7]]))
    assert drawn(run.observe(*state)[0]) == ["...o.", *["....."] * 8, "..o.."]


def test_the_ball_begins_in_each_column_equally_often(runner):
    fifths = np.float32(np.arange(50) / 50 + 0.001)
    state = runner(Catch, False).begin(np.float32([*fifths, 0, LAST])[:, np.newaxis])
    assert np.bincount(state.ball_column[:50]).tolist() == [10] * 5
    assert state.ball_column[50:].tolist() == [0, 4]


class SlowCatch:
    """One board at a time, drawn into an array, with bsuite's order of moves."""

    def __init__(self, ball):
        self.ball, self.paddle = [0, ball], [9, 2]

    def step(self, action):
        self.paddle[1] = min(max(self.paddle[1] + (-1, 0, 1)[action], 0), 4)
        self.ball[0] += 1
        ended = self.ball[0] == self.paddle[0]
        reward = (1.0 if self.ball == self.paddle else -1.0) if ended else 0.0
        board = np.zeros((10, 5), bool)
        board[tuple(self.ball)] = board[tuple(self.paddle)] = True
        return board, reward, ended


@COMPILED_OR_NOT
def test_catch_is_the_slow_twin_in_a_thousand_random_episodes(compiled, runner):
    run, rng = runner(Catch, compiled), np.random.default_rng(0)
    uniform = rng.random((1000, 1), np.float32)
    twins = [SlowCatch(int(5 * u)) for u in uniform[:, 0]]
    state = run.begin(uniform)
    for _ in range(9):
        actions = rng.integers(3, size=1000)
        ran = run.step(state, actions)
        played = [twin.step(action) for twin, action in zip(twins, actions, strict=True)]
        boards, rewards, ended = map(np.array, zip(*played, strict=True))
        np.testing.assert_array_equal(ran.observation, boards)
        np.testing.assert_array_equal(ran.reward, rewards)
        np.testing.assert_array_equal(ran.terminated, ended)
        state = ran.state
    assert ended.all() and 100 < (rewards > 0).sum() < 900
