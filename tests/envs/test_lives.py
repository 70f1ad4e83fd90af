"""A lost life is an end for the learner alone: the game goes on, and so does its episode."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing

from targetnet.envs import Episode, episode_seed, make_envs
from targetnet.envs.recorder import Recorder
from targetnet.rl_core.errors import EnvError
from tests.envs.lives import GO_ON, ID, LOSE, TRUNCATE, Lives


def made(num_envs=1, seed=1, **how):
    return make_envs(ID, num_envs, seed=seed, **how)


def copied(step):
    return step._replace(**{k: v.copy() for k, v in step._asdict().items() if hasattr(v, "copy")})


def rows_of(envs, actions):
    """Plays the same actions in all envs; returns the rows."""
    played = [copied(envs.reset())]
    return played + [copied(envs.step(np.full(envs.num_envs, of))) for of in actions]


# action     t left  reward  terminated  autoreset
ROWS = [
    (None,   0, 3,   0.0,    False,      True),
    (GO_ON,  1, 3,   1.0,    False,      False),
    (LOSE,   2, 2,   2.0,    True,       False),
    (GO_ON,  2, 2,   0.0,    False,      True),  # the action is ignored, the env is not asked
    (GO_ON,  3, 2,   3.0,    False,      False),
    (LOSE,   4, 1,   4.0,    True,       False),
    (LOSE,   4, 1,   0.0,    False,      True),
    (LOSE,   5, 0,   5.0,    True,       False),  # the game is over
    (GO_ON,  0, 3,   0.0,    False,      True),
]  # fmt: skip


def test_after_a_lost_life_the_game_goes_on_and_its_episode_too():
    envs = made()
    resets = envs._lanes[0].env.unwrapped.resets
    rows = rows_of(envs, [action for action, *_ in ROWS[1:]])
    for row, (_, t, left, reward, terminated, autoreset) in zip(rows, ROWS, strict=True):
        assert row.observation.tolist() == [[t, left]]
        assert (row.reward[0], row.terminated[0], row.autoreset[0]) == (
            reward, terminated, autoreset,
        )  # fmt: skip
    # 1 + 2 + 3 + 4 + 5 in five transitions, and a reset at its begin alone.
    ended = [row.episodes for row in rows if row.episodes]
    assert ended == [(Episode(0, 0, 15.0, 5, True),)] and rows[7].episodes
    assert envs._lanes[0].env.unwrapped.resets == resets + 2


def test_a_vector_envs_life_begins_in_a_row_that_nobody_learns_from_but_the_game_paid():
    """It cannot hold one of its envs back, and that row is a step of the game."""
    envs = made(2, vectorization="vector_entry_point")
    rows = rows_of(envs, [GO_ON, LOSE, GO_ON, LOSE, GO_ON, LOSE, GO_ON])
    assert [row.observation[0].tolist() for row in rows] == [
        [0, 3], [1, 3], [2, 2], [3, 2], [4, 1], [5, 1], [6, 0], [0, 3],
    ]  # fmt: skip
    assert [bool(row.autoreset[0]) for row in rows] == [1, 0, 0, 1, 0, 1, 0, 1]
    assert [row.reward[0] for row in rows] == [0, 1, 2, 0, 4, 0, 6, 0]
    # 1 + ... + 6, of which four steps were transitions.
    assert rows[6].episodes == (Episode(0, 0, 21.0, 4, True), Episode(1, 0, 21.0, 4, True))
    assert sum(len(row.episodes) for row in rows) == 2


def test_a_stack_of_frames_does_not_go_back_over_a_lost_life():
    rows = rows_of(made(frame_stack=3), [GO_ON, LOSE, GO_ON, GO_ON])
    steps = [row.observation[0, ::2].tolist() for row in rows]
    assert steps == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [0, 0, 2], [0, 2, 3]]
    assert rows[3].observation[0].tolist() == [0, 0, 0, 0, 2, 2]


def test_a_time_limit_ends_the_game_also_where_a_life_is_lost():
    envs = made(env_kwargs={"max_episode_steps": 2})
    rows = rows_of(envs, [GO_ON, LOSE, GO_ON])
    assert (rows[2].terminated[0], rows[2].truncated[0]) == (True, True)
    assert rows[2].episodes == (Episode(0, 0, 3.0, 2, True),)
    assert rows[3].observation.tolist() == [[0, 3]]


def test_a_game_that_is_cut_where_a_life_is_lost_begins_anew():
    envs = made()
    rows_of(envs, [GO_ON, LOSE])
    assert envs.cut(np.array([True])) == (Episode(0, 0, 3.0, 2, False, cut=True),)
    assert envs.step(np.array([GO_ON])).observation.tolist() == [[0, 3]]


def test_where_a_life_is_lost_an_action_is_chosen_so_one_must_be_legal():
    masks = [[1, 1, 1], [0, 1, 0], [1, 0, 0]]
    rows = rows_of(made(env_kwargs={"masks": masks}), [LOSE, GO_ON])
    assert [row.legal[0].tolist() for row in rows] == [masks[0], masks[1], masks[1]]
    with pytest.raises(EnvError, match=r"got \[0, 0, 0\]"):
        rows_of(made(env_kwargs={"masks": [[1, 1, 1], [0, 0, 0]]}), [LOSE])


@pytest.mark.parametrize("steps", range(9))
@pytest.mark.parametrize("stack", [1, 2])
def test_an_env_comes_back_before_and_after_the_row_that_begins_a_life(steps, stack):
    actions = [GO_ON, LOSE, GO_ON, LOSE, GO_ON, GO_ON, GO_ON, TRUNCATE, GO_ON]
    envs, again = made(frame_stack=stack), made(frame_stack=stack)
    rows = rows_of(envs, actions[:steps])
    back, problems = again.restore(envs.state())
    assert problems == []
    if not rows[-1].truncated[0]:  # then the agent keeps it
        np.testing.assert_array_equal(back.observation, rows[-1].observation)
    for action in actions[steps:]:
        one, other = envs.step(np.array([action])), again.step(np.array([action]))
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert envs.state() == again.state()


def test_workers_give_the_same_rows():
    kwargs = {"by_chance": True}
    actions = np.random.default_rng(0).integers(3, size=150)
    one, other = (
        made(3, env_kwargs=kwargs, vectorization=how, frame_stack=2) for how in ("sync", "async")
    )
    try:
        ended = 0
        for a, b in zip(rows_of(one, actions), rows_of(other, actions), strict=True):
            for here, there in zip(a, b, strict=True):
                np.testing.assert_array_equal(here, there)
            ended += len(a.episodes)
        assert one.state() == other.state() and ended > 10
    finally:
        one.close(), other.close()


def test_each_life_is_recorded_as_an_episode_and_games_are_counted():
    env = Recorder(Lives(), Lives.observation_space, episodes=2)
    for actions in ([GO_ON, LOSE, GO_ON, LOSE, LOSE], [TRUNCATE], [LOSE, LOSE]):
        env.reset(seed=5)
        for action in actions:
            env.step(action)
    assert env.is_over
    shown = [episode.observations[:, 0].tolist() for episode in env.ended]
    assert shown == [[0, 1, 2], [2, 3, 4], [4, 5], [0, 1]]
    paid = [episode.rewards.tolist() for episode in env.ended]
    assert paid == [[1, 2], [3, 4], [5], [1]]
    ends = [(episode.terminated, episode.truncated) for episode in env.ended]
    assert ends == [(True, False)] * 3 + [(False, True)]
    assert [episode.seed for episode in env.ended] == [5, None, None, 5]


# Atari's games.

GAME = {"frameskip": 1, "repeat_action_probability": 0.25}


def atari(game="Breakout", seed=3, frame_stack=1, num_envs=1, **wrapper_kwargs):
    pytest.importorskip("ale_py")
    return make_envs(
        f"ALE/{game}-v5", num_envs, seed=seed, wrapper="atari", wrapper_kwargs=wrapper_kwargs,
        env_kwargs=GAME, frame_stack=frame_stack,
    )  # fmt: skip


def played(envs, actions):
    """Returns (observation, reward) of each transition, the number of ends, and the episodes."""
    steps, ends, episodes = [], 0, ()
    envs.reset()
    for action in actions:
        step = envs.step(np.array([action]))
        if step.autoreset[0]:  # that action was ignored
            step = envs.step(np.array([action]))
        steps.append((step.observation[0].copy(), float(step.reward[0])))
        ends += int(step.terminated[0])
        episodes += step.episodes
    envs.close()
    return steps, ends, episodes


@pytest.mark.slow
def test_the_game_does_not_notice_that_its_lost_lives_are_ends():
    actions = np.random.default_rng(0).integers(4, size=700)
    plain, overs, games = played(atari(), actions)
    marked, ends, the_same_games = played(atari(terminal_on_life_loss=True), actions)
    for (shown, paid), (also_shown, also_paid) in zip(plain, marked, strict=True):
        np.testing.assert_array_equal(shown, also_shown)
        assert paid == also_paid
    assert games == the_same_games and overs == len(games) > 1
    assert ends >= 5 * len(games)


@pytest.mark.slow
def test_restart_is_gymnasiums_terminal_on_life_loss():
    envs = atari(terminal_on_life_loss="restart")
    bare = AtariPreprocessing(gym.make("ALE/Breakout-v5", **GAME), noop_max=0,
                              terminal_on_life_loss=True)  # fmt: skip
    observation, _ = bare.reset(seed=episode_seed(3, 0, 0))
    step, episode, over = envs.reset(), 0, False
    for action in np.random.default_rng(0).integers(4, size=200):
        step = envs.step(np.array([action]))
        if over:
            episode += 1
            observation, _ = bare.reset(seed=episode_seed(3, 0, episode))
            over = False
        else:
            observation, _, over, _, _ = bare.step(action)
        np.testing.assert_array_equal(step.observation[0], observation)
        assert step.terminated[0] == over
    assert episode > 4


def pressed(game, **wrapper_kwargs):
    """Plays 200 steps without an action; returns the actions that ALE got and the lives' ends."""
    envs = atari(game, **wrapper_kwargs)
    seen, env = [], envs._lanes[0].env
    while not isinstance(env, AtariPreprocessing):
        env = env.env
    step_of, env.step = env.step, lambda action: (seen.append(int(action)), step_of(action))[1]
    rows = rows_of(envs, [0] * 200)
    envs.close()
    return seen, sum(int(row.terminated[0]) for row in rows), len(rows) - 1


@pytest.mark.slow
def test_games_begin_with_the_fire_button_and_so_do_their_lives():
    seen, lost, _ = pressed("Breakout", fire_reset=True, terminal_on_life_loss=True)
    # Without a press no ball comes and no life is lost.
    assert lost > 3 and seen[0] == 1
    assert seen.count(1) == lost + 1  # the first, and one for each life that began
    seen, lost, _ = pressed("Breakout", fire_reset=True)
    assert (seen.count(1), lost) == (1, 0)
    seen, lost, steps = pressed("Freeway", fire_reset=True)  # which has no such button
    assert seen == [0] * steps


def test_what_is_no_way_to_lose_a_life_is_refused():
    with pytest.raises(EnvError, match=r"terminal_on_life_loss must be true, false or 'restart'"):
        atari(terminal_on_life_loss="anew")


vector = partial(make_envs, num_envs=2, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vector_entry_point", "envpool"])
def test_games_of_vector_envs_that_tell_lost_lives_are_whole(kind):
    pytest.importorskip("ale_py" if kind == "vector_entry_point" else "envpool")
    if kind == "envpool":
        envs = vector("Breakout-v5", vectorization=kind, env_kwargs={"episodic_life": True})
    else:
        envs = vector("ALE/Breakout-v5", vectorization=kind, env_kwargs={"life_loss_info": True})
    rng, rows = np.random.default_rng(0), [copied(envs.reset())]
    for _ in range(600):
        rows.append(copied(envs.step(rng.integers(4, size=2).astype(np.int32))))
    envs.close()
    ended = [episode for row in rows for episode in row.episodes]
    assert [episode.number for episode in ended if episode.env == 0] == [
        *range(sum(episode.env == 0 for episode in ended))
    ]
    lost = sum(int(row.terminated.sum()) for row in rows)
    assert len(ended) > 2 and lost >= 5 * len(ended)
    for env in range(2):
        of = [episode for episode in ended if episode.env == env]
        last = max(t for t, row in enumerate(rows) if any(e.env == env for e in row.episodes))
        transitions = sum(not row.autoreset[env] for row in rows[: last + 1])
        assert sum(episode.length for episode in of) == transitions
