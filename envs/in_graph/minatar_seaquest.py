"""MinAtar's Seaquest in the graph: a submarine rescues divers and shoots fish and submarines."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.envs.in_graph.interface import EnvStep
from targetnet.envs.in_graph.minatar import (
    LANES,
    SIDE,
    MinAtarGame,
    cell,
    count,
    filled,
    inside,
    moved,
    on_board,
    one_hot,
    sticky,
    whole,
)

STAY, LEFT, UP, RIGHT, DOWN, FIRE = range(6)
NONE, FISH, SUBMARINE = range(3)  # kinds of enemies
FULL_TANK = 200  # steps
CREW = 6  # largest number of divers aboard
RELOAD, ENEMY_RELOAD = 5, 10  # timers: the player fires at most every 5th step, enemies every 11th
DIVER_SPAWN_STEPS, DIVER_REST = 30, 5
SPAWN_STEPS, REST, SHORTEST_REST = 20, 5, 2  # of enemies, at level 0
LAST_LEVEL = 19

# Numbers of slots. The newest object is in slot 0; a new object pushes the others one slot further
# and overwrites the last slot. The slots suffice, because the object in the last slot has always
# gone before a new one comes:
# * A shot of the player leaves the board in its 10th step at the latest, before the second next
#   shot.
# * A diver leaves in its 60th step (10 cells, 6 steps each), before the second next diver.
# * An enemy that comes at level 6 or later takes 3 steps per cell and leaves in its 30th step. At
#   most one enemy comes per step, so at most 29 come after it.
# * An enemy that comes before level 6, when the next enemy is at least 15 steps away, stays for at
#   most 33 steps after level 6 begins. A level takes at least 2 steps, so the steps between two
#   enemies decrease from 14 too slowly for more than 11 enemies to come in these 33 steps. In the
#   at most 60 steps before level 6, at most 4 enemies come.
SHOTS, DIVERS, ENEMIES = 2, 2, 30

LANE = np.arange(1, LANES + 1, dtype=np.int32)[:, np.newaxis]  # [8, 1]
COLUMN_BITS = (7 << 3 * np.arange(SIDE)).astype(np.int32)  # [10]


class SeaquestState(NamedTuple):
    """State of the game, [N] int32 unless noted.

    A way is a direction, -1 or 1. A rest is the number of steps until the next move.
    """

    last_action: tf.Tensor
    x: tf.Tensor  # column of the front of the player's submarine
    y: tf.Tensor
    way: tf.Tensor
    shot_timer: tf.Tensor
    oxygen: tf.Tensor
    crew: tf.Tensor  # divers aboard; a negative number is a debt of divers
    at_surface: tf.Tensor  # bool: the player is at the surface; staying there is no new surfacing
    level: tf.Tensor
    spawn_timer: tf.Tensor
    diver_spawn_timer: tf.Tensor
    shot: tf.Tensor  # [N, 2] bool: the slot holds a shot
    shot_x: tf.Tensor  # [N, 2]
    shot_y: tf.Tensor
    shot_way: tf.Tensor
    diver: tf.Tensor  # [N, 2] bool: the slot holds a diver
    diver_x: tf.Tensor  # [N, 2]
    diver_y: tf.Tensor
    diver_way: tf.Tensor
    diver_rest: tf.Tensor
    enemy: tf.Tensor  # [N, 30]: the kind of enemy in the slot, or NONE
    enemy_x: tf.Tensor
    enemy_y: tf.Tensor
    enemy_way: tf.Tensor
    enemy_rest: tf.Tensor
    enemy_shot_timer: tf.Tensor
    torpedo_left: tf.Tensor  # [N, 8, 10] bool: an enemy's shot to the left is in lane and column
    torpedo_right: tf.Tensor  # [N, 8, 10] bool: a shot to the right


class Seaquest(MinAtarGame):
    """MinAtar's Seaquest.

    Enemies (fish and submarines) enter at the sides and cross the board, but no enemy enters a lane
    with enemies of the opposite direction. Enemy submarines shoot. Each enemy that the player
    shoots pays 1. Divers cross the board too; the player takes up to 6 of them aboard.

    At the surface the tank is filled and one diver leaves. With 6 divers aboard, all of them leave,
    the player then owes one diver, and the step pays a twentieth of the oxygen that was left,
    rounded down. With each surfacing, up to 19 times, the game becomes harder: the time between two
    new enemies decreases by one step, from 20 steps to 1. With every second surfacing, the enemies'
    rest before a move also decreases by one step, from 5 to 2.

    The episode terminates when the player meets an enemy or an enemy's shot, comes up without a
    diver, or has an empty tank.

    Order within a step: new enemies and divers, the player, the player's shots, divers, enemies,
    the enemies' shots, the surface. A shot hits a fish before a submarine, and the oldest first.

    Actions: stay, left, up, right, down, fire. Channels: front and back of the player's submarine,
    the player's shots, trails, the enemies' shots, fish, submarines, oxygen, divers aboard, divers.

    Draws of `step`: 0: sticky action. 1: a new enemy enters at the left if below 1/2, otherwise at
    the right. 2: the enemy is a submarine if below 1/3, otherwise a fish. 3: lane of the enemy.
    4: a new diver enters at the left if below 1/2, otherwise at the right. 5: lane of the diver.
    """

    observation_shape = (SIDE, SIDE, 10)
    num_actions = 6
    begin_draws = 0
    step_draws = 6

    def begin(self, uniform: tf.Tensor) -> SeaquestState:
        shots, divers = filled(uniform, 0, SHOTS), filled(uniform, 0, DIVERS)
        enemies = filled(uniform, 0, ENEMIES)
        no_torpedo = filled(uniform, False, LANES, SIDE)
        return SeaquestState(
            last_action=filled(uniform, STAY),
            x=filled(uniform, 5),
            y=filled(uniform, 0),
            way=filled(uniform, -1),
            shot_timer=filled(uniform, 0),
            oxygen=filled(uniform, FULL_TANK),
            crew=filled(uniform, 0),
            at_surface=filled(uniform, True),
            level=filled(uniform, 0),
            spawn_timer=filled(uniform, SPAWN_STEPS),
            diver_spawn_timer=filled(uniform, DIVER_SPAWN_STEPS),
            shot=filled(uniform, False, SHOTS),
            shot_x=shots,
            shot_y=shots,
            shot_way=shots,
            diver=filled(uniform, False, DIVERS),
            diver_x=divers,
            diver_y=divers,
            diver_way=divers,
            diver_rest=divers,
            enemy=enemies,
            enemy_x=enemies,
            enemy_y=enemies,
            enemy_way=enemies,
            enemy_rest=enemies,
            enemy_shot_timer=enemies,
            torpedo_left=no_torpedo,
            torpedo_right=no_torpedo,
        )

    def step(self, state: SeaquestState, action: tf.Tensor, uniform: tf.Tensor) -> EnvStep:
        state = _spawn_enemy(state, uniform[:, 1:4])
        state = _spawn_diver(state, uniform[:, 4:6])
        state = _steer(state, sticky(state.last_action, action, uniform[:, 0]))
        state, shot_by = _fly_shots(state)
        state = _swim(state)
        state, rammed, shot_into = _move_enemies(state)
        state, torpedoed = _fly_torpedoes(state)
        suffocated = state.oxygen <= 0
        state, rescued, turned_away = _come_up(state)
        reward = tf.cast(shot_by + shot_into + rescued, tf.float32)  # [N]
        return EnvStep(state, reward, rammed | torpedoed | suffocated | turned_away)

    def observe(self, state: SeaquestState) -> tf.Tensor:
        fish, submarine = tf.equal(state.enemy, FISH), tf.equal(state.enemy, SUBMARINE)
        enemy_trails = _lanes(fish | submarine, state.enemy_x - state.enemy_way, state.enemy_y)
        diver_trails = _lanes(state.diver, state.diver_x - state.diver_way, state.diver_y)
        shots = cell(state.shot_y, state.shot_x) & state.shot[:, :, tf.newaxis, tf.newaxis]
        columns = tf.range(SIDE)
        gauge = (columns + 1) * FULL_TANK <= SIDE * state.oxygen[:, tf.newaxis]  # [N, 10]
        aboard = (columns >= SIDE - 1 - state.crew[:, tf.newaxis]) & (columns < SIDE - 1)
        planes = [
            cell(state.y, state.x),
            cell(state.y, state.x - state.way),
            tf.reduce_any(shots, axis=1),
            on_board(enemy_trails | diver_trails),
            on_board(state.torpedo_left | state.torpedo_right),
            on_board(_lanes(fish, state.enemy_x, state.enemy_y)),
            on_board(_lanes(submarine, state.enemy_x, state.enemy_y)),
            _last_row(gauge),
            _last_row(aboard),
            on_board(_lanes(state.diver, state.diver_x, state.diver_y)),
        ]
        return tf.stack(planes, axis=-1)  # [N, 10, 10, 10]


def _last_row(columns: tf.Tensor) -> tf.Tensor:
    """Returns a plane [N, 10, 10] with `columns` [N, 10] in its last row."""
    return tf.pad(columns[:, tf.newaxis], [[0, 0], [SIDE - 1, 0], [0, 0]])


def _lanes(there: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Returns [N, 8, 10] bool: True if any object [N, S] is in that lane and column."""
    # One int32 counts all ten columns, 3 bits each, because a cell never has more than 3 objects.
    column = 3 * tf.clip_by_value(x, 0, SIDE - 1)
    one = tf.where_v2(there & inside(x), tf.bitwise.left_shift(1, column), 0)  # [N, S]
    in_lane = tf.equal(y[:, tf.newaxis, :], LANE)  # [N, 8, S]
    counts = tf.reduce_sum(tf.where_v2(in_lane, one[:, tf.newaxis, :], 0), axis=2)  # [N, 8]
    return tf.bitwise.bitwise_and(counts[:, :, tf.newaxis], COLUMN_BITS) > 0


def _pushed(new: tf.Tensor, value: tf.Tensor, slots: tf.Tensor) -> tf.Tensor:
    """Returns the slots with `value` [N] pushed into slot 0, for the envs where `new` is True."""
    moved_on = tf.concat([value[:, tf.newaxis], slots[:, :-1]], axis=1)
    return tf.where_v2(new[:, tf.newaxis], moved_on, slots)


def _entrance(uniform: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (x, way), each [N], of an entry at the left if `uniform` < 1/2, else at the right."""
    from_left = uniform < 1 / 2
    return tf.where_v2(from_left, 0, SIDE - 1), tf.where_v2(from_left, 1, -1)


def _rest(level: tf.Tensor) -> tf.Tensor:
    return tf.maximum(REST - tf.bitwise.right_shift(level, 1), SHORTEST_REST)


def _spawn_enemy(state: SeaquestState, uniform: tf.Tensor) -> SeaquestState:
    due = tf.equal(state.spawn_timer, 0)  # [N]
    x, way = _entrance(uniform[:, 0])
    kind = tf.where_v2(uniform[:, 1] < 1 / 3, SUBMARINE, FISH)
    y = 1 + whole(uniform[:, 2], LANES)
    in_lane = (state.enemy > NONE) & tf.equal(state.enemy_y, y[:, tf.newaxis])  # [N, 30]
    against = tf.reduce_any(in_lane & tf.not_equal(state.enemy_way, way[:, tf.newaxis]), axis=1)
    new = due & ~against
    return state._replace(
        spawn_timer=tf.where_v2(due, SPAWN_STEPS - state.level, state.spawn_timer),
        enemy=_pushed(new, kind, state.enemy),
        enemy_x=_pushed(new, x, state.enemy_x),
        enemy_y=_pushed(new, y, state.enemy_y),
        enemy_way=_pushed(new, way, state.enemy_way),
        enemy_rest=_pushed(new, _rest(state.level), state.enemy_rest),
        enemy_shot_timer=_pushed(new, tf.fill(tf.shape(x), ENEMY_RELOAD), state.enemy_shot_timer),
    )


def _spawn_diver(state: SeaquestState, uniform: tf.Tensor) -> SeaquestState:
    new = tf.equal(state.diver_spawn_timer, 0)  # [N]
    x, way = _entrance(uniform[:, 0])
    return state._replace(
        diver_spawn_timer=tf.where_v2(new, DIVER_SPAWN_STEPS, state.diver_spawn_timer),
        diver=_pushed(new, new, state.diver),
        diver_x=_pushed(new, x, state.diver_x),
        diver_y=_pushed(new, 1 + whole(uniform[:, 1], LANES), state.diver_y),
        diver_way=_pushed(new, way, state.diver_way),
        diver_rest=_pushed(new, tf.fill(tf.shape(x), DIVER_REST), state.diver_rest),
    )


def _steer(state: SeaquestState, action: tf.Tensor) -> SeaquestState:
    fire = tf.equal(action, FIRE) & tf.equal(state.shot_timer, 0)  # [N]
    right, left = tf.equal(action, RIGHT), tf.equal(action, LEFT)
    y = state.y + count(tf.equal(action, DOWN)) - count(tf.equal(action, UP))
    return state._replace(
        last_action=action,
        shot=_pushed(fire, fire, state.shot),
        shot_x=_pushed(fire, state.x, state.shot_x),
        shot_y=_pushed(fire, state.y, state.shot_y),
        shot_way=_pushed(fire, state.way, state.shot_way),
        shot_timer=tf.where_v2(fire, RELOAD, state.shot_timer),
        x=moved(state.x, right, left),
        y=tf.clip_by_value(y, 0, LANES),
        way=tf.where_v2(right, 1, tf.where_v2(left, -1, state.way)),
    )


def _fly_shots(state: SeaquestState) -> tuple[SeaquestState, tf.Tensor]:
    """Moves the player's shots, the newest first; returns the state and [N] int32 enemies hit."""
    shot_x = state.shot_x + state.shot_way  # [N, 2]
    flying = state.shot & inside(shot_x)
    enemy, left = state.enemy, []
    # A shot hits the highest rank: fish before submarines, then the oldest (the highest slot).
    rank = tf.range(ENEMIES) + tf.where_v2(tf.equal(enemy, FISH), ENEMIES, 0)  # [N, 30]
    for i in range(SHOTS):
        at_shot = _at(state.enemy_x, state.enemy_y, shot_x[:, i], state.shot_y[:, i])  # [N, 30]
        met = (enemy > NONE) & at_shot & flying[:, i, tf.newaxis]
        first = tf.reduce_max(tf.where_v2(met, rank, -1), axis=1)  # [N]
        enemy = tf.where_v2(tf.equal(rank, first[:, tf.newaxis]), NONE, enemy)
        left.append(flying[:, i] & (first < 0))
    shot = tf.stack(left, axis=1)
    hits = tf.reduce_sum(count(flying & ~shot), axis=1)
    return state._replace(enemy=enemy, shot=shot, shot_x=shot_x), hits


def _at(x: tf.Tensor, y: tf.Tensor, at_x: tf.Tensor, at_y: tf.Tensor) -> tf.Tensor:
    """Returns [N, S] bool: True for the objects at (x, y) that are in the cell (at_x, at_y)."""
    return tf.equal(x, at_x[:, tf.newaxis]) & tf.equal(y, at_y[:, tf.newaxis])


def _swim(state: SeaquestState) -> SeaquestState:
    """Moves divers or takes them aboard, the newest first, because only one may still fit."""
    moving = tf.equal(state.diver_rest, 0)  # [N, 2]
    x = state.diver_x + tf.where_v2(moving, state.diver_way, 0)
    met = _at(state.diver_x, state.diver_y, state.x, state.y)
    met = state.diver & (met | _at(x, state.diver_y, state.x, state.y))
    crew, aboard = state.crew, []
    for i in range(DIVERS):
        aboard.append(met[:, i] & (crew < CREW))
        crew += count(aboard[i])
    return state._replace(
        crew=crew,
        diver=state.diver & ~tf.stack(aboard, axis=1) & inside(x),
        diver_x=x,
        diver_rest=tf.where_v2(moving, DIVER_REST, state.diver_rest - 1),
    )


def _move_enemies(state: SeaquestState) -> tuple[SeaquestState, tf.Tensor, tf.Tensor]:
    """Moves the enemies.

    Two enemies never move into the same cell in one step: enemies that come at level 6 or later
    do not catch up with each other, and earlier enemies are too far apart.

    Returns:
      (state, [N] bool: an enemy met the player, [N] int32: enemies that moved into a shot).
    """
    there = state.enemy > NONE  # [N, 30]
    moving = there & tf.equal(state.enemy_rest, 0)
    x, y = state.enemy_x + tf.where_v2(moving, state.enemy_way, 0), state.enemy_y
    met = _at(state.enemy_x, y, state.x, state.y) | _at(x, y, state.x, state.y)
    met &= there
    shots = [
        moving & _at(x, y, state.shot_x[:, i], state.shot_y[:, i]) & state.shot[:, i, tf.newaxis]
        for i in range(SHOTS)
    ]
    hit = tf.stack([tf.reduce_any(into, axis=1) for into in shots], axis=1)  # [N, 2]
    firing = tf.equal(state.enemy, SUBMARINE) & tf.equal(state.enemy_shot_timer, 0)
    to_right = state.enemy_way > 0
    after = state._replace(
        shot=state.shot & ~hit,
        enemy=tf.where_v2(shots[0] | shots[1] | ~inside(x), NONE, state.enemy),
        enemy_x=x,
        enemy_rest=tf.where_v2(moving, _rest(state.level)[:, tf.newaxis], state.enemy_rest - 1),
        enemy_shot_timer=tf.where_v2(firing, ENEMY_RELOAD, state.enemy_shot_timer - 1),
        # An enemy that was hit in this step still fires.
        torpedo_left=state.torpedo_left | _lanes(firing & ~to_right, x, y),
        torpedo_right=state.torpedo_right | _lanes(firing & to_right, x, y),
    )
    return after, tf.reduce_any(met, axis=1), tf.reduce_sum(count(hit), axis=1)


def _fly_torpedoes(state: SeaquestState) -> tuple[SeaquestState, tf.Tensor]:
    """Moves the enemies' shots; returns the state and [N] bool: a shot met the player."""
    lefts, rights = state.torpedo_left, state.torpedo_right
    left = tf.pad(lefts[:, :, 1:], [[0, 0], [0, 0], [0, 1]])
    right = tf.pad(rights[:, :, :-1], [[0, 0], [0, 0], [1, 0]])
    player = one_hot(state.y - 1, LANES)[:, :, tf.newaxis] & one_hot(state.x)[:, tf.newaxis, :]
    met = tf.reduce_any((lefts | rights | left | right) & player, axis=[1, 2])
    return state._replace(torpedo_left=left, torpedo_right=right), met


def _come_up(state: SeaquestState) -> tuple[SeaquestState, tf.Tensor, tf.Tensor]:
    """Handles the surface, and advances the timers.

    Returns:
      (state, [N] int32 reward, [N] bool: the player came up without a diver).
    """
    diving = state.y > 0
    coming = ~diving & ~state.at_surface
    welcome = coming & tf.not_equal(state.crew, 0)
    complete = welcome & tf.equal(state.crew, CREW)
    oxygen = tf.where_v2(diving, state.oxygen - 1, state.oxygen)
    crew = tf.where_v2(complete, 0, state.crew)
    after = state._replace(
        spawn_timer=tf.maximum(state.spawn_timer - 1, 0),
        diver_spawn_timer=tf.maximum(state.diver_spawn_timer - 1, 0),
        shot_timer=tf.maximum(state.shot_timer - 1, 0),
        oxygen=tf.where_v2(welcome, FULL_TANK, oxygen),
        crew=tf.where_v2(welcome, crew - 1, crew),
        at_surface=~diving & (state.at_surface | welcome),
        level=tf.minimum(state.level + count(welcome), LAST_LEVEL),
    )
    return after, tf.where_v2(complete, state.oxygen * SIDE // FULL_TANK, 0), coming & ~welcome
