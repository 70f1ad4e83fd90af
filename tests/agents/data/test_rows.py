"""A dataset's steps in the replay memory: the transitions that it has, beside a slow twin."""

import json

import gymnasium as gym
import h5py
import minari
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from targetnet.agents.config.envs import training_envs
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.data.metadata import DataError
from targetnet.agents.data.minari_files import Dataset, directory_of, write
from targetnet.agents.data.rows import DatasetRows
from targetnet.agents.data.run_dataset import fill, with_dataset
from targetnet.agents.run.agent_factory import agent_for
from targetnet.envs.recorder import RecordedSteps
from targetnet.rl_core.errors import RlCoreError
from tests.agents.data.datasets import form_of, random_episodes, written

SMALL = {
    "hidden": (8,), "batch_size": 8, "learn_start": 0, "past_states": 0, "xla": False,
    "env_id": "CartPole-v1",
}  # fmt: skip


def filled(path, **settings):
    """An agent whose replay holds the dataset, and its config."""
    config = with_dataset(DqnConfig(**SMALL | {"offline": str(path)} | settings))
    envs = training_envs(config)
    agent = agent_for(config, envs)
    fill(agent)
    return agent


def valid_transitions(agent, stack=1):
    """All transitions that may be sampled, read from the rows one by one."""
    contents, steps = agent.state.contents, agent.replay.steps
    rows = contents.time_steps(0, contents.written())
    assert contents.written() <= steps
    shown = rows["observation"][:, 0]

    def seen(t):
        """An observation of as many frames as the network sees, zeros before the first one."""
        frames, goes_on = [shown[t]], True
        for back in range(1, stack):
            goes_on = goes_on and t - back >= 0 and not rows["autoreset"][t - back, 0]
            frames.insert(0, shown[t - back] if goes_on else np.zeros_like(shown[t]))
        return np.concatenate(frames, axis=-1)

    return [
        (
            seen(t), int(rows["action"][t, 0]), float(rows["reward"][t, 0]),
            bool(rows["terminated"][t, 0]), seen(t + 1),
        )
        for t in range(contents.written() - 1)
        if not rows["autoreset"][t, 0]
    ]  # fmt: skip


def transitions_of(path, stack=1):
    """The slow twin: the dataset's transitions as Minari gives its episodes."""
    found = []
    for episode in minari.MinariDataset(path / "data"):
        padded = [np.zeros_like(episode.observations[0])] * (stack - 1) + [*episode.observations]
        seen = [
            np.concatenate(padded[t : t + stack], axis=-1) for t in range(len(episode.actions) + 1)
        ]
        for t, action in enumerate(episode.actions):
            reward = float(np.float32(episode.rewards[t]))
            over = bool(episode.terminations[t])
            found.append((seen[t], int(action), reward, over, seen[t + 1]))
    return found


def require_equal(found, wanted):
    assert len(found) == len(wanted) > 0
    for ours, theirs in zip(found, wanted, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.cases(1)
@pytest.mark.parametrize("stack", [1, 3])
def test_the_replay_has_exactly_the_datasets_transitions(tmp_path, stack):
    path = written(tmp_path / "random-v0")
    agent = filled(path, frame_stack=stack)
    require_equal(valid_transitions(agent, stack), transitions_of(path, stack))
    # Every one of them may be sampled, and each row fits: 30 steps, and a last row of 4 episodes.
    assert agent.rows() == 30
    assert agent.replay.steps == agent.config.replay_capacity == 34 + stack - 1


@pytest.mark.thorough
def test_many_rows_are_stored_in_several_calls_as_in_one(tmp_path, monkeypatch):
    path = written(tmp_path / "random-v0", random_episodes(lengths=(30, 1, 50, 7)))
    whole = filled(path)
    monkeypatch.setattr("targetnet.agents.data.run_dataset._AT_ONCE", 7)
    require_equal(valid_transitions(filled(path)), valid_transitions(whole))


def test_a_dataset_of_one_step_can_be_learned_from(tmp_path):
    path = written(tmp_path / "one-v0", random_episodes(lengths=(1,)))
    agent = filled(path)
    require_equal(valid_transitions(agent), transitions_of(path))
    agent.learn(3)


@pytest.mark.cases(1)
@pytest.mark.parametrize("n_step", [1, 3])
def test_what_is_sampled_is_of_the_dataset(tmp_path, n_step):
    """By the TD errors of an update: of returns over n steps that end where an episode does."""
    path = written(tmp_path / "random-v0", random_episodes(lengths=(5, 3)))
    settings = {"learning_rate": 1e-12, "discount": 0.5, "batch_size": 64, "n_step": n_step}
    agent = filled(path, **settings)
    found = agent.learn(stats=True).td_error
    possible = []
    for episode in minari.MinariDataset(path / "data"):
        q = agent.q_values(episode.observations)
        length = len(episode.actions)
        for t, action in enumerate(episode.actions):
            end = min(t + n_step, length)
            rewards = np.float32(episode.rewards[t:end])
            target = sum(0.5**k * r for k, r in enumerate(rewards))
            if not episode.terminations[end - 1]:
                target += 0.5 ** (end - t) * q[end].max()
            possible.append(target - q[t, action])
    distances = np.abs(found[:, None] - np.array(possible)[None, :])
    assert distances.min(axis=1).max() < 1e-4  # each is one of them
    assert distances.min(axis=0).max() < 1e-4  # and of 64 draws each of the 8 was one


class Rooms(gym.Env):
    """Shows a dict with a number from 3 on, and allows some of its actions, from 5 on."""

    observation_space = Dict({
        "room": Discrete(4, start=3),
        "rest": Tuple((Box(-9, 9, (2,), np.float32), Box(0, 255, (3,), np.uint8))),
    })  # fmt: skip
    action_space = Discrete(3, start=5)

    def _shown(self):
        place = np.float32([self.t, -self.t]), np.uint8([self.t] * 3)
        return {"room": 3 + self.t % 4, "rest": place}, {"action_mask": np.int8([1, 1, self.t % 2])}

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self._shown()

    def step(self, action):
        self.t += 1
        shown, info = self._shown()
        return shown, 1.0, self.t > 5, False, info


gym.register("test/Rooms-v0", Rooms)


def of_rooms(masks=True):
    """An episode of two steps."""
    shown = {
        "room": np.int64([3, 4, 5]),
        "rest": (np.float32([[0, 0], [1, -1], [2, -2]]), np.uint8([[0] * 3, [1] * 3, [2] * 3])),
    }
    legal = np.int8([[1, 1, 0], [1, 1, 1], [1, 1, 0]])
    return [
        RecordedSteps(shown, np.int64([6, 7]), np.ones(2), True, False, legal if masks else None)
    ]


def test_parts_numbers_and_masks_become_the_agents(tmp_path):
    path = written(tmp_path / "rooms-v0", of_rooms(), Rooms())
    agent = filled(path, env_id="test/Rooms-v0")
    rows = agent.state.contents.time_steps(0, 3)
    parts = {part.name: part.of(rows["observation"][:, 0]) for part in parts_of(agent)}
    np.testing.assert_array_equal(parts["room"], np.eye(4)[:3])
    np.testing.assert_array_equal(parts["rest.0"], [[0, 0], [1, -1], [2, -2]])
    np.testing.assert_array_equal(parts["rest.1"], [[0] * 3, [1] * 3, [2] * 3])
    np.testing.assert_array_equal(rows["action"][:2, 0], [1, 2])
    np.testing.assert_array_equal(rows["legal"][:, 0], [[1, 1, 0], [1, 1, 1], [1, 1, 0]])
    agent.learn(2)


def parts_of(agent):
    envs = training_envs(agent.config)
    return envs.parts


def test_an_env_with_masks_needs_them_in_the_dataset(tmp_path):
    path = written(tmp_path / "rooms-v0", of_rooms(masks=False), Rooms())
    assert "no infos['action_mask']" in complaint(path, env_id="test/Rooms-v0")


# What a config takes from a dataset.


def test_the_env_is_the_datasets_if_the_config_names_none(tmp_path):
    env = gym.make("Acrobot-v1", max_episode_steps=77)
    path = written(tmp_path / "acrobot-v0", random_episodes(env), env)
    config = with_dataset(DqnConfig(offline=str(path)))
    assert (config.env_id, config.env_kwargs) == ("Acrobot-v1", {"max_episode_steps": 77})
    assert config == with_dataset(config)
    said = complaint(path)
    assert "is of another env than CartPole-v1" in said
    assert said.endswith("it was recorded from Acrobot-v1: --set env_id=Acrobot-v1")


def test_a_dataset_without_an_env_needs_one_in_the_config(tmp_path):
    env = gym.make("Acrobot-v1")
    path = tmp_path / "acrobot-v0"
    path.mkdir()
    write(path, path.name, form_of(env)._replace(spec=None), random_episodes(env), {})
    said = complaint_of(DqnConfig(offline=str(path)))
    assert "nor the config names an env: --set env_id=...; " in said
    assert said.endswith("and actions Discrete(3)") and "CartPole" not in said
    said = complaint_of(DqnConfig(begin_with=str(path)))
    assert said.startswith(f"the config names no env, and the dataset {path} does not fit CartPole")
    assert said.endswith("; --set env_id=...") and "of another env" not in said
    config = with_dataset(DqnConfig(offline=str(path), env_id="Acrobot-v1"))
    assert config.env_id == "Acrobot-v1"
    assert "is of another env than CartPole-v1" in complaint(path)  # the config names it


def test_braces_in_a_datasets_space_are_shown_as_they_are(tmp_path):
    """Spaces come from anybody, and a message that is filled in later would fill in theirs."""
    path = tmp_path / "a-v0"
    path.mkdir()
    env = gym.make("CartPole-v1")
    form = form_of(env)._replace(observations=Dict({"{x}": env.observation_space}))
    episodes = [of._replace(observations={"{x}": of.observations}) for of in random_episodes(env)]
    write(path, path.name, form, episodes, {})
    assert "'{x}': Box" in complaint(path, env_id="Acrobot-v1")


def test_a_dataset_is_found_by_its_id_and_by_its_path(tmp_path, monkeypatch):
    path = written(tmp_path / "data" / "cartpole" / "random-v0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))
    names = "cartpole/random-v0", "data/cartpole/random-v0", str(path)
    assert {directory_of(name) for name in names} == {path}
    with pytest.raises(DataError, match=r"did you mean 'cartpole/random-v0'\?"):
        directory_of("cartpole/random-v1")


def test_the_digest_is_of_the_steps_and_not_of_the_files(tmp_path):
    paths = [
        written(tmp_path / "a-v0"),
        written(tmp_path / "b-v0"),
        written(tmp_path / "c-v0", random_episodes(seed=1)),
        written(tmp_path / "d-v0", random_episodes(ends=[True] * 4)),
    ]
    digests = [with_dataset(DqnConfig(offline=str(path))).dataset_digest for path in paths]
    assert digests[0] == digests[1] and len({*digests}) == 3
    with pytest.raises(DataError, match="is not the one that this run learns from"):
        with_dataset(DqnConfig(offline=str(paths[2]), dataset_digest=digests[0]))


# What cannot be learned from.


def complaint(path, **settings):
    return complaint_of(DqnConfig(**SMALL | {"offline": str(path)} | settings))


def complaint_of(config):
    with pytest.raises(RlCoreError) as refused:
        with_dataset(config)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def changed(path, name, change):
    """Changes a column of the second episode."""
    with h5py.File(path / "data" / "main_data.hdf5", "a") as file:
        group = file["episode_2"]
        column = np.asarray(group[name])
        del group[name]
        if (column := change(column)) is not None:
            group.create_dataset(name, data=column)


def put(place, value):
    def change(column):
        column[place] = value
        return column

    return change


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("actions", put(3, 2), "action 2, which is none of 0 to 1"),
        ("actions", lambda column: column[:-1], "wanted 14 whole numbers"),
        ("actions", lambda column: column.astype(np.float32), "wanted 14 whole numbers"),
        ("rewards", put(3, np.nan), "wanted rewards that are finite in float32"),
        ("rewards", put(3, 1e300), "wanted rewards that are finite in float32"),
        ("terminations", put(3, True), "wanted no end before the last step"),
        ("terminations", lambda column: column[:-1], "wanted 14 flags"),
        ("observations", put((5, 1), np.inf), "at step 5 the observation must be finite"),
        ("observations", lambda column: column[:-1], "shape (15, 4)"),
        ("observations", lambda column: column[:, :3], "shape (15, 4)"),
        ("rewards", lambda column: None, "cannot read the dataset"),
    ],
)
def test_a_damaged_episode_is_named(tmp_path, name, change, said):
    path = written(tmp_path / "random-v0")
    changed(path, name, change)
    found = complaint(path)
    assert said in found and str(path) in found
    if "cannot read" not in said:
        assert found.startswith("episode 2 of the dataset")


def test_files_that_are_no_dataset_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "none"))
    assert "there is no Minari dataset 'nothing-v0'" in complaint("nothing-v0")
    assert "there is no Minari dataset" in complaint("x" * 5_000)
    path = written(tmp_path / "random-v0")
    data = path / "data" / "main_data.hdf5"
    data.write_bytes(data.read_bytes()[:1_000])
    assert "cannot read the dataset" in complaint(path)
    (path / "data" / "metadata.json").write_text("{")
    assert "cannot read the dataset" in complaint(path)
    (path / "data" / "metadata.json").write_text("{}")
    assert "does not read datasets of version None" in complaint(path)
    assert not (tmp_path / "none").exists()


def test_an_empty_dataset_is_refused(tmp_path):
    path = written(tmp_path / "random-v0")
    metadata = json.loads((path / "data" / "metadata.json").read_text())
    metadata |= {"total_episodes": 0, "total_steps": 0}
    (path / "data" / "metadata.json").write_text(json.dumps(metadata))
    assert "is empty" in complaint(path)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"loop": "concurrent"}, "offline has a loop of its own"),
        ({"num_envs": 4}, "set num_envs = 1, got 4"),
    ],
)
def test_keys_that_make_no_sense_offline_are_refused(settings, said):
    with pytest.raises(RlCoreError, match=said):
        DqnConfig(offline="a-v0", **settings)


def test_a_digest_without_a_dataset_is_refused():
    with pytest.raises(RlCoreError, match="set offline"):
        DqnConfig(dataset_digest="0" * 64)


def test_the_rows_of_a_dataset_are_read_again_from_its_files(tmp_path):
    """What was checked once may be damaged when it is learned from."""
    path = written(tmp_path / "random-v0")
    config = with_dataset(DqnConfig(**SMALL | {"offline": str(path)}))
    envs = training_envs(config)
    rows = DatasetRows(Dataset(path), config, envs)
    assert sum(len(piece["action"]) for piece in rows.pieces(5)) == 34
    changed(path, "rewards", put(3, np.nan))
    with pytest.raises(DataError, match="episode 2"):
        [*rows.pieces(5)]
