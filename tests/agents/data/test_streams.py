"""A dataset's episodes dealt out to several envs: the replay beside a slow twin."""

import minari
import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.data.metadata import DataError
from targetnet.agents.data.rows import EpisodeStreams
from targetnet.agents.data.run_dataset import fill, with_dataset
from targetnet.agents.run.agent_factory import agent_for
from targetnet.envs import make_envs
from tests.agents.data.datasets import random_episodes, written

LENGTHS = (9, 1, 14, 6, 5, 1, 1, 22, 3, 8)
SETTINGS = {
    "env_id": "CartPole-v1", "hidden": (8,), "batch_size": 8, "learn_start": 0, "past_states": 0,
    "xla": False, "replay_capacity": 300,
}  # fmt: skip


def begun(path, **settings):
    """An agent whose replay begins with the dataset."""
    config = with_dataset(DqnConfig(**SETTINGS | {"begin_with": str(path)} | settings))
    envs = make_envs(config.env_id, config.num_envs, seed=0, frame_stack=config.frame_stack)
    agent = agent_for(config, envs)
    fill(agent)
    return agent


def dealt(path, num_envs):
    """The slow twin: of each env the rows (observation, action, reward, terminated, autoreset).

    As in a replay, each has the outcome of its own action; what is not known is None.
    """
    rows = [[] for _ in range(num_envs)]
    for episode in minari.MinariDataset(path / "data"):
        mine = min(rows, key=len)  # of several such, min takes the first
        for t in range(len(episode.observations)):
            last = t == len(episode.actions)
            outcome = (0.0, False, True)  # the reset
            if not last:
                outcome = np.float32(episode.rewards[t]), bool(episode.terminations[t]), False
            action = None if last else int(episode.actions[t])
            mine.append((episode.observations[t], action, *outcome))
    shortest = min(map(len, rows))
    return [stream[:shortest] for stream in rows]


def test_streams_deal_to_the_shortest_and_of_several_to_the_first():
    streams = EpisodeStreams(3)
    assert [streams.deal(n) for n in (4, 4, 2, 2, 1, 1, 9)] == [0, 1, 2, 2, 0, 1, 2]
    assert streams.lengths == [5, 5, 13] and streams.time_steps == 5


@pytest.mark.cases(1, 3)
@pytest.mark.parametrize("num_envs", [1, 2, 3])
@pytest.mark.parametrize("at_once", [4096, 7])
def test_the_replay_begins_with_the_episodes_side_by_side(tmp_path, monkeypatch, num_envs, at_once):
    path = written(tmp_path / "random-v0", random_episodes(lengths=LENGTHS))
    monkeypatch.setattr("targetnet.agents.data.run_dataset._AT_ONCE", at_once)
    agent, twin = begun(path, num_envs=num_envs), dealt(path, num_envs)
    steps = agent.config.demonstration_steps
    assert agent.state.contents.written() == steps == len(twin[0])
    rows = agent.state.contents.time_steps(0, steps)
    for env, stream in enumerate(twin):
        for t, (observation, action, reward, terminated, autoreset) in enumerate(stream):
            np.testing.assert_array_equal(rows["observation"][t, env], observation)
            if t == steps - 1:
                continue  # its outcome is not known before the run's first time step
            assert bool(rows["autoreset"][t, env]) == autoreset
            if not autoreset:
                assert rows["action"][t, env] == action and rows["reward"][t, env] == reward
                assert bool(rows["terminated"][t, env]) == terminated


@pytest.mark.thorough
@pytest.mark.parametrize("stack", [1, 3])
def test_the_last_demonstration_of_each_env_never_becomes_a_transition(tmp_path, stack):
    """Whatever it was cut from: the run's first row came by a reset, and not by its action."""
    path = written(tmp_path / "random-v0", random_episodes(lengths=LENGTHS))
    agent = begun(path, num_envs=3, frame_stack=stack)
    steps, twin = agent.config.demonstration_steps, dealt(path, 3)
    wanted = sum(not row[4] for stream in twin for row in stream[:-1])
    assert agent.rows() == wanted > 0
    assert any(not stream[-1][4] for stream in twin)  # one was cut in its middle

    def step(autoreset):
        shown = np.full((3, 4 * stack), 0.5, np.float32)
        agent.step(shown, np.float32([9, 9, 9]), np.zeros(3, bool), np.full(3, autoreset))

    step(True)
    assert agent.rows() == wanted
    assert agent.state.contents.time_steps(steps - 1, steps)["autoreset"].all()
    step(False)
    assert agent.rows() == wanted + 3
    agent.learn(2)


def complaint(path, **settings):
    with pytest.raises(DataError) as refused:
        with_dataset(DqnConfig(**SETTINGS | {"begin_with": str(path)} | settings))
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.thorough
def test_what_the_replay_cannot_hold_is_refused_with_the_least_capacity(tmp_path):
    path = written(tmp_path / "random-v0", random_episodes(lengths=(9, 1, 14, 6)))
    # Streams of 10 + 7 and 2 + 15 rows.
    said = complaint(path, num_envs=2, replay_capacity=33)
    assert "are 34 rows of the replay, which needs replay_capacity >= 40, got 33" in said
    assert "needs replay_capacity >= 44" in complaint(
        path, num_envs=2, replay_capacity=43, frame_stack=3
    )
    config = DqnConfig(**SETTINGS | {"begin_with": str(path), "num_envs": 2})
    assert with_dataset(config.model_copy(update={"replay_capacity": 40})).demonstration_steps == 17
    agent = begun(path, num_envs=2, replay_capacity=40)
    assert agent.replay.steps == 20 and agent.config.demonstration_steps == 17


def test_fewer_episodes_than_envs_and_another_number_of_time_steps_are_refused(tmp_path):
    path = written(tmp_path / "random-v0", random_episodes(lengths=(9, 14)))
    said = complaint(path, num_envs=3)
    assert "has 2 episodes with steps" in said and "num_envs = 3 envs" in said
    said = complaint(path, demonstration_steps=24)
    assert "demonstration_steps is 25" in said and "got 24; leave it out" in said
    config = DqnConfig(**SETTINGS | {"begin_with": str(path), "demonstration_steps": 25})
    kept = with_dataset(config)
    assert kept.begin_with == str(path) and len(kept.dataset_digest) == 64
    assert with_dataset(kept) == kept
    other = written(tmp_path / "other-v0", random_episodes(lengths=(9, 14), seed=1))
    with pytest.raises(DataError, match="is not the one that this run learns from"):
        with_dataset(kept.model_copy(update={"begin_with": str(other)}))
