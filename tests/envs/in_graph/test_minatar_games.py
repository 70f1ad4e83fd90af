"""MinAtar in the graph: step by step what the package's own games do with the same random numbers.

The package's games play first, half of them driven by policies that see into them; then the graph
runs freely with their actions and random numbers. Some go on where an episode ends, on both sides,
so that they come to the highest levels of difficulty.
"""

from collections import Counter
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.envs.in_graph.minatar_asterix import Asterix
from targetnet.envs.in_graph.minatar_breakout import Breakout
from targetnet.envs.in_graph.minatar_freeway import Freeway
from targetnet.envs.in_graph.minatar_seaquest import ENEMIES, Seaquest
from targetnet.envs.in_graph.minatar_space_invaders import SpaceInvaders
from targetnet.envs.minatar import SPECS, MinAtarEnv

pytestmark = pytest.mark.filterwarnings("ignore")
# Few bricks, so that the ball soon comes between them.
BRICKS = np.array([[1, 0, 1, 1, 0, 1, 1, 0, 1, 1], [0] * 10, [0, 1, 1, 0, 1, 1, 0, 1, 0, 1]], bool)


class SparseBreakout(Breakout):
    def begin(self, uniform):
        begun = super().begin(uniform)
        return begun._replace(bricks=tf.zeros_like(begun.bricks) | BRICKS)


GAMES = {
    "asterix": Asterix,
    "breakout": Breakout,
    "breakout, sparse": SparseBreakout,
    "freeway": Freeway,
    "seaquest": Seaquest,
    "space_invaders": SpaceInvaders,
}
EVERY_GAME = pytest.mark.parametrize("game", GAMES)


class Script:
    """Stands in for a RandomState: gives the numbers it was handed, in their order."""

    numbers: list

    def rand(self, size=None):
        if size is None:
            return float(self.numbers.pop(0))
        return np.array([self.rand() for _ in range(size)])

    def randint(self, low, high=None, size=None):
        if size is not None:
            return np.array([self.randint(low, high) for _ in range(size)])
        low, high = (0, low) if high is None else (low, high)
        return low + int(self.numbers.pop(0) * np.float32(high - low))


class Package:
    """The package's game, given the draws of the graph's."""

    def __init__(self, game):
        self.game = game
        self.env = MinAtarEnv(game.removesuffix(", sparse"))
        self.rules = self.env._game
        self.rules.random = self.random = Script()
        if game == "seaquest":  # where what is spawned tells which draws it needs
            self.rules._spawn_enemy = self.handed(self.rules._spawn_enemy, 1, 4)
            self.rules._spawn_diver = self.handed(self.rules._spawn_diver, 4, 6)

    def handed(self, spawn, start, stop):
        def spawn_with_its_draws():
            self.random.numbers = list(self.draws[start:stop])
            spawn()

        return spawn_with_its_draws

    def hand(self, uniform):
        self.draws = uniform
        self.random.numbers = list(uniform)
        if self.game == "freeway":  # asks for eight speeds, 1 .. 5, and then for eight directions
            choice = (uniform[-8:] * np.float32(10)).astype(int)
            speed, right = np.where(choice < 5, choice, choice - 5), choice >= 5
            cars = [*np.float32((speed + 0.5) / 5), *np.float32(0.25 + 0.5 * right)]
            self.random.numbers[-8:] = cars

    def reset(self, uniform):
        self.hand(uniform)
        self.env.reset()
        if self.game == "breakout, sparse":
            self.rules.brick_map[1:4] = BRICKS
        return self.rules.state()

    def step(self, action, uniform):
        self.hand(uniform)
        return self.env.step(action)[:3]


# Policies see into the package's game.


def at_random(rules, rng):
    return rng.integers(len(rules.minimal_action_set()))


def toward(x, goal, left, right):
    return left if goal < x else right if goal > x else 0


def play_breakout(rules, rng):
    ahead = rules.ball_x + (1 if rules.ball_dir in (1, 2) else -1)
    from_side = rules.ball_y == 8 and rng.random() < 0.3
    return toward(rules.pos, ahead if from_side else rules.ball_x, 1, 2)


def play_asterix(rules, rng):
    gold = [e for e in rules.entities if e is not None and e[3]]
    if not gold:
        return at_random(rules, rng)
    x, y = min((abs(e[0] - rules.player_x) + abs(e[1] - rules.player_y), e) for e in gold)[1][:2]
    return toward(rules.player_y, y, 2, 4) or toward(rules.player_x, x, 1, 3)


def play_freeway(rules, rng):
    return 1 if rng.random() < 0.9 else at_random(rules, rng)


def play_space_invaders(rules, rng):
    if rng.random() < 0.1:
        return at_random(rules, rng)
    if rules.shot_timer == 0 and rules.alien_map[:, rules.pos].any():
        return 3
    shots = np.flatnonzero(rules.e_bullet_map[5:, rules.pos])
    columns = np.flatnonzero(rules.alien_map.any(axis=0))
    if columns.size == 1:  # too quick to aim at
        return rng.choice([1, 2, 3])
    if shots.size:
        return 1 if rules.pos > 5 else 2
    return toward(rules.pos, min(columns, key=lambda x: abs(x - rules.pos)), 1, 2)


def play_seaquest(rules, rng):
    x, y, right = rules.sub_x, rules.sub_y, rules.sub_or
    if rng.random() < 0.1:
        return at_random(rules, rng)
    if y == 0:
        return 4
    in_row = [e[0] for e in rules.e_fish + rules.e_subs if e[1] == y]
    if rules.shot_timer == 0 and any((e > x) == right for e in in_row):
        return 5
    if in_row and rules.shot_timer == 0 and rng.random() < 0.5:
        return 3 if in_row[0] > x else 1
    if rules.diver_count == 6 or (rules.diver_count != 0 and rules.oxygen < 30):
        return 2
    if rules.diver_count < 0 and rng.random() < 0.3:  # what it owes, nobody asks for
        return 2
    if not rules.divers or rng.random() < 0.1:
        return rng.choice([0, 1, 3, 4]) if y == 1 else at_random(rules, rng)
    diver = rules.divers[0]
    return toward(y, diver[1], 2, 4) or toward(x, diver[0], 1, 3)


PLAY = {
    "asterix": play_asterix,
    "breakout": play_breakout,
    "breakout, sparse": play_breakout,
    "freeway": play_freeway,
    "seaquest": play_seaquest,
    "space_invaders": play_space_invaders,
}


class Step(NamedTuple):
    """What happened in a step of the package's game."""

    before: dict  # of its attributes; those that are numbers
    now: object
    reward: float
    terminated: bool


def both_ways(things):
    return {bool(z[2]) for z in things} == {True, False}


# What must happen in the runs of each game, or they prove little.
EVENTS = {
    "asterix": {
        "gold is found": lambda s: s.reward == 1,
        "gold both ways": lambda s: both_ways([e for e in s.now.entities if e and e[3]]),
        "enemies both ways": lambda s: both_ways([e for e in s.now.entities if e and not e[3]]),
        "no lane is free": lambda s: None not in s.now.entities,
        "the last level": lambda s: (s.now.spawn_speed, s.now.move_speed) == (1, 1),
        "the end": lambda s: s.terminated,
    },
    "breakout": {
        "a brick is broken": lambda s: s.reward == 1,
        "back from the side": lambda s: (
            s.before["ball_y"] == s.now.ball_y == 8
            and (s.before["ball_dir"] + 2) % 4 == s.now.ball_dir
        ),
        "back from above": lambda s: (
            s.before["ball_y"] == s.now.ball_y == 8
            and (s.before["ball_dir"] + 2) % 4 != s.now.ball_dir
        ),
        "the end": lambda s: s.terminated,
    },
    "breakout, sparse": {
        "a brick is passed": lambda s: s.now.strike and s.reward == 0,
        "bricks come again": lambda s: np.sum(s.now.brick_map) > np.sum(BRICKS),
    },
    "freeway": {
        "arrived": lambda s: s.reward == 1,
        "run over": lambda s: s.before["pos"] < 8 and s.now.pos == 9 and s.reward == 0,
        "every speed": lambda s: len({abs(c[3]) for c in s.now.cars}) == 5,
        "the end": lambda s: s.terminated,
    },
    "space_invaders": {
        "an alien is shot": lambda s: s.reward == 1,
        "one is left": lambda s: np.sum(s.now.alien_map) == 1,
        "aliens to the right": lambda s: s.now.alien_dir == 1,
        "a wave is cleared": lambda s: s.now.ramp_index == 1,
        "the last level": lambda s: s.now.enemy_move_interval == 6,
        "many shots of theirs": lambda s: np.sum(s.now.e_bullet_map) > 0,
        "aliens on the ground": lambda s: s.now.alien_map[9].any(),
        "shot down": lambda s: s.terminated and s.now.e_bullet_map[9, s.now.pos],
        "the end": lambda s: s.terminated,
    },
    "seaquest": {
        "one is shot": lambda s: s.reward == 1,
        "two are shot": lambda s: s.reward == 2 and s.now.sub_y > 0,
        "all 6 are rescued": lambda s: s.before["diver_count"] == 6 and s.now.diver_count == -1,
        "they earn a lot": lambda s: s.reward > 3,
        "one is rescued": lambda s: 1 < s.before["diver_count"] == s.now.diver_count + 1 < 6,
        "more are owed": lambda s: s.now.diver_count < -3,
        "no diver": lambda s: s.terminated and s.now.sub_y == 0 and s.now.diver_count == 0,
        "no oxygen": lambda s: s.terminated and s.now.oxygen <= 0,
        "two divers": lambda s: len(s.now.divers) == 2,
        "the last level": lambda s: s.now.ramp_index == 19,
        "20 enemies": lambda s: len(s.now.e_fish) + len(s.now.e_subs) > 20,
        "one cell, two fish": lambda s: len({(*z[:2],) for z in s.now.e_fish}) < len(s.now.e_fish),
        "torpedoes both ways": lambda s: both_ways(s.now.e_bullets),
        "two shots": lambda s: len(s.now.f_bullets) == 2,
    },
}


class Played(NamedTuple):
    """[T, N, ...] of T steps; observations and `begin_uniform`, also of the start: [T + 1, N, ...].

    `for_ever` [N]: whether a game goes on where its episode ends.
    """

    for_ever: np.ndarray
    begin_uniform: np.ndarray
    uniform: np.ndarray
    action: np.ndarray
    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray


def play(game, steps, copies, seed, unseen):
    """The package's games; events that happen are taken out of `unseen`.

    By a policy or, the odd ones, at random; of either, every other one goes on for ever where it
    can.
    """
    rng = np.random.default_rng(seed)
    env, policies = GAMES[game], (PLAY[game], at_random)
    begin_uniform = rng.random((steps + 1, copies, env.begin_draws), np.float32)
    uniform = rng.random((steps, copies, env.step_draws), np.float32)
    for_ever = (np.arange(copies) // 2 % 2 == 1) & (game in GO_ON)
    packages = [Package(game) for _ in range(copies)]
    first = [package.reset(begin_uniform[0, i]) for i, package in enumerate(packages)]
    rows = []
    for t in range(steps):
        row = []
        for i, package in enumerate(packages):
            rules = package.rules
            before = {k: v for k, v in vars(rules).items() if isinstance(v, int | np.integer)}
            action = policies[i % 2](rules, rng)
            observation, reward, terminated = package.step(action, uniform[t, i])
            step = Step(before, rules, reward, terminated)
            unseen -= {name for name in unseen if EVENTS[game][name](step)}
            if terminated and for_ever[i]:
                rules.terminal = False
            elif terminated:
                observation = package.reset(begin_uniform[t + 1, i])
            row.append((action, observation, reward, terminated))
        rows.append([np.array(column) for column in zip(*row, strict=True)])
    action, observation, reward, terminated = map(np.stack, zip(*rows, strict=True))
    observation = np.concatenate([[first], observation])
    action = action.astype(np.int32)
    return Played(for_ever, begin_uniform, uniform, action, observation, reward, terminated)


def rollout(env, played, compiled):
    """A function giving (observations, rewards, terminated) [T, N, ...], and the last state."""
    length, copies = played.action.shape

    @tf2.function(jit_compile=compiled, autograph=False)
    def run(steps, for_ever, begin_uniform, uniform, action):
        def body(t, state, observations, rewards, ends):
            state, reward, terminated = env.step(state, action[t], uniform[t])
            begun = env.begin(begin_uniform[t + 1])
            state = tf.nest.map_structure(again(terminated & ~for_ever), begun, state)
            observations = observations.write(t + 1, env.observe(state))
            return t + 1, state, observations, rewards.write(t, reward), ends.write(t, terminated)

        state = env.begin(begin_uniform[0])
        shape = (copies, *env.observation_shape)
        observations = tf.TensorArray(tf.bool, length + 1, element_shape=shape)
        observations = observations.write(0, env.observe(state))
        rewards = tf.TensorArray(tf.float32, length, element_shape=[copies])
        ends = tf.TensorArray(tf.bool, length, element_shape=[copies])
        _, state, *arrays = tf.while_loop(
            lambda t, *_: t < steps, body, (0, state, observations, rewards, ends)
        )
        return [array.stack() for array in arrays], state

    return run


def again(ended):
    def where_ended(begun, state):
        return tf.where_v2(tf.reshape(ended, [-1] + [1] * (begun.shape.rank - 1)), begun, state)

    return where_ended


@contextmanager
def in_graph(game, played, functions=(True,)):
    """Gives run(steps, compiled): the graph's games, given what the package's were."""
    given = played[:4]
    with tf.Graph().as_default(), tf.Session() as session:
        steps = tf.placeholder(tf.int32, [])
        inputs = [tf.placeholder(array.dtype, array.shape) for array in given]
        runs = {c: rollout(GAMES[game](), played, c)(steps, *inputs) for c in functions}
        feeds = dict(zip(inputs, given, strict=True))
        yield lambda number, compiled=True: session.run(runs[compiled], {**feeds, steps: number})


def first_difference(left, right):
    return np.argwhere(left != right)[:1].tolist()


def assert_they_did_the_same(arrays, played):
    observations, rewards, ends = arrays
    assert observations.dtype == bool and rewards.dtype == np.float32 and ends.dtype == bool
    assert first_difference(observations, played.observation) == []
    assert first_difference(rewards, played.reward) == []
    assert first_difference(ends, played.terminated) == []


GO_ON = ("asterix", "seaquest", "space_invaders")  # the others end in the last row, or by time
# steps, copies: enough for every event
RUNS = {
    "asterix": (1200, 4),
    "breakout": (1500, 4),
    "breakout, sparse": (1000, 4),
    "freeway": (2600, 2),
    "seaquest": (2500, 4),
    "space_invaders": (2500, 4),
}


FAST = ("breakout",)  # compiling takes the time


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    "game", [pytest.param(g, marks=[] if g in FAST else pytest.mark.slow) for g in GAMES]
)
def test_a_game_is_the_packages_step_by_step_compiled_and_not(game):
    unseen = set(EVENTS[game])
    steps, copies = RUNS[game]
    played = play(game, steps, copies, seed=0, unseen=unseen)
    assert unseen == set()
    with in_graph(game, played, functions=(True, False)) as run:
        assert_they_did_the_same(run(steps)[0], played)
        with_xla, without = run(100), run(100, compiled=False)
    for left, right in zip(tf.nest.flatten(with_xla), tf.nest.flatten(without), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


@pytest.mark.slow
@EVERY_GAME
def test_a_game_is_the_packages_for_100_000_steps(game):
    unseen = set(EVENTS[game])
    for seed in range(1, 5):
        played = play(game, 2_600, 10, seed, unseen)
        with in_graph(game, played) as run:
            assert_they_did_the_same(run(2_600)[0], played)
    assert unseen == set()


@EVERY_GAME
def test_a_game_says_of_itself_what_the_package_does(game):
    env, package = GAMES[game], Package(game).env
    assert env.observation_shape == package.observation_space.shape
    assert env.observation_dtype == package.observation_space.dtype
    assert env.num_actions == package.action_space.n
    name = Package(game).env._game.__module__.removeprefix("minatar.environments.")
    spec = SPECS[f"MinAtar/{name.title().replace('_', '')}-v1"]
    assert env.max_episode_steps == spec.max_episode_steps


@pytest.mark.parametrize("between", [2, 3, 5, 20])  # steps from one surfacing to the next
def test_seaquest_has_a_slot_for_every_enemy(between):
    """All come in one lane and none is shot; surfacing begins after any number of steps."""
    came_after, in_a_cell = 0, 0
    for start in range(80):
        level, spawn_timer, came = 0, 20, 0
        enemies = []  # [x, rest, how many came before]
        for t in range(start + 19 * between + 100):
            rest = max(5 - level // 2, 2)
            if spawn_timer == 0:
                enemies.append([0, rest, came])
                came, spawn_timer = came + 1, 20 - level
            for enemy in enemies:
                enemy[:2] = [enemy[0] + 1, rest] if enemy[1] == 0 else [enemy[0], enemy[1] - 1]
            gone = [came - 1 - before for x, _, before in enemies if x > 9]
            came_after = max(came_after, *gone, 0)
            enemies = [enemy for enemy in enemies if enemy[0] <= 9]
            cells = Counter(x for x, *_ in enemies)
            in_a_cell = max(in_a_cell, *cells.values(), 0)
            # Two in one cell never move at once.
            assert len({(x, rest) for x, rest, _ in enemies}) == len(enemies)
            spawn_timer -= 1
            level += level < 19 and t >= start and (t - start) % between == 0
    assert (came_after, in_a_cell) == (29, 3)
    assert came_after < ENEMIES
