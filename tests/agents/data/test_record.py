"""Datasets that are recorded from runs, read back by Minari itself, beside the steps themselves."""

import json
import sys
from pathlib import Path

import gymnasium as gym
import minari
import numpy as np
import pytest

from targetnet.agents.cli.main import main
from targetnet.agents.config.files import read_toml
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.data.episodes import _require_rows
from targetnet.agents.data.metadata import DataError
from targetnet.agents.data.minari_files import Form, write
from targetnet.agents.data.record import record
from targetnet.agents.policy.load import load_policy
from targetnet.agents.run.train import train
from targetnet.envs.recorder import RecordedSteps
from targetnet.rl_core.errors import RlCoreError

SHORT = {
    "env_steps": 400, "hidden": (8,), "batch_size": 8, "learn_start": 20, "learn_period": 8,
    "eval_period": 10_000, "final_eval_episodes": 1, "xla": False, "past_states": 0,
}  # fmt: skip
# CartPole that is cut after 9 env steps: of a policy that has learned little some fall before.
LIMITED = {"env_kwargs": {"max_episode_steps": 9}}
HERE = __name__


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    config = DqnConfig(**SHORT | LIMITED, seed=3)
    return train(config, tmp_path_factory.mktemp("runs") / "run", console=None).run


def loaded(out, monkeypatch):
    """A dataset as Minari finds it by its id."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(out.parent))
    return minari.load_dataset(out.name)


def seeds_of(dataset):
    metadata = dataset.storage.get_episode_metadata(range(len(dataset)))
    return [of["seed"] for of in metadata]


def require_these_steps(dataset, env):
    """Makes the steps of each episode again, in an env that knows nothing of ours."""
    for episode, seed in zip(dataset, seeds_of(dataset), strict=True):
        observation, _ = env.reset(seed=seed)
        shown, paid, ends = [observation], [], []
        for action in episode.actions:
            observation, reward, *ended, _ = env.step(action)
            shown.append(observation)
            paid.append(reward)
            ends.append(ended)
        np.testing.assert_array_equal(episode.observations, np.stack(shown), strict=True)
        np.testing.assert_array_equal(episode.rewards, np.array(paid), strict=True)
        flags = np.stack([episode.terminations, episode.truncations], axis=1)
        assert not flags[:-1].any() and not any(map(any, ends[:-1]))
        yield flags[-1].tolist(), ends[-1]


@pytest.mark.thorough
def test_greedy_episodes_are_the_steps_that_the_env_makes(run, tmp_path, monkeypatch):
    made = record(run, tmp_path / "limited-v0", episodes=24)
    dataset = loaded(made.path, monkeypatch)
    assert dataset.total_episodes == made.episodes == 24
    assert dataset.total_steps == made.env_steps == sum(len(of.rewards) for of in dataset)
    env = gym.make("CartPole-v1", max_episode_steps=9)
    ends = [*require_these_steps(dataset, env)]
    assert all(ours == theirs for ours, theirs in ends)
    # Both kinds of ends are there, so the true final observation of a cut episode was compared.
    assert {tuple(ours) for ours, _ in ends} >= {(True, False), (False, True)}
    with load_policy(run) as policy:
        for episode in dataset:
            np.testing.assert_array_equal(episode.actions, policy(episode.observations[:-1]))
    assert made.mean_return == np.mean([of.rewards.sum() for of in dataset])


def test_the_dataset_says_where_it_comes_from_and_makes_its_env_again(run, tmp_path, monkeypatch):
    made = record(run, tmp_path / "limited-v0", episodes=1)
    dataset = loaded(made.path, monkeypatch)
    env = dataset.recover_environment()
    assert env.spec.id == "CartPole-v1" and env.spec.max_episode_steps == 9
    assert env.observation_space == dataset.observation_space
    assert env.action_space == dataset.action_space
    about = dataset.storage.metadata["targetnet"]
    assert about["kind"] == "policy" and about["env_step"] == 400
    assert len(about["weights"]) == 64 and about["version"]
    (tmp_path / "config.toml").write_text(about["config"])
    assert read_toml(tmp_path / "config.toml")["seed"] == 3


def test_so_many_env_steps_are_recorded_and_the_last_episodes_are_cut(run, tmp_path, monkeypatch):
    made = record(run, tmp_path / "steps-v0", env_steps=137)
    dataset = loaded(made.path, monkeypatch)
    assert made.env_steps == dataset.total_steps == 137
    env = gym.make("CartPole-v1", max_episode_steps=9)
    cut = [ours for ours, theirs in require_these_steps(dataset, env) if ours != theirs]
    assert cut and all(ours == [False, True] for ours in cut)  # theirs goes on there


@pytest.mark.thorough
def test_random_actions_are_as_many_as_asked_for_and_follow_from_the_seed(run, tmp_path):
    seeds = {"a": 5, "b": 5, "c": 6}
    for name, seed in seeds.items():
        record(run, tmp_path / f"{name}-v0", env_steps=1_000, epsilon=0.5, seed=seed)
    a, b, c = (
        np.concatenate([of.actions for of in minari.MinariDataset(tmp_path / f"{n}-v0" / "data")])
        for n in seeds
    )
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)
    with load_policy(run) as policy:
        dataset = minari.MinariDataset(tmp_path / "a-v0" / "data")
        greedy = np.concatenate([policy(of.observations[:-1]) for of in dataset])
    # Half of the actions are random, of which half are the greedy ones: 750 +- 14.
    assert 680 < np.count_nonzero(a == greedy) < 820


def test_a_long_episode_is_cut_as_an_evaluation_cuts_it(tmp_path):
    config = DqnConfig(**SHORT, eval_max_steps=6)
    run = train(config, tmp_path / "run", console=None).run
    made = record(run, tmp_path / "cut-v0", episodes=11)
    dataset = minari.MinariDataset(made.path / "data")
    assert all(len(of) == 6 and of.truncations.tolist() == [False] * 5 + [True] for of in dataset)


class Parts(gym.Env):
    """Shows a dict in an order of its own, and allows some actions, numbered from 4 on."""

    observation_space = gym.spaces.Dict([
        ("says", gym.spaces.Text(9)),
        ("camera", gym.spaces.Box(0, 255, (40, 36, 3), np.uint8)),
        ("at", gym.spaces.Discrete(4, start=1)),
    ])  # fmt: skip
    action_space = gym.spaces.Discrete(3, start=4)

    def _shown(self):
        camera = self.np_random.integers(0, 255, (40, 36, 3), np.uint8)
        mask = np.array([1, self.t % 2, 1], np.int8)
        return {"at": 1 + self.t % 4, "camera": camera, "says": "go"}, {"action_mask": mask}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._shown()

    def step(self, action):
        assert action in self.action_space
        assert action != 5 or self.t % 2
        self.t += 1
        shown, info = self._shown()
        return shown, self.t / 3, self.t >= 7, False, info


gym.register("test/Parts-v0", Parts)
OF_PARTS = SHORT | {
    "env_id": "test/Parts-v0", "observation_keys": ("at", "camera"), "env_steps": 60,
    "replay_capacity": 60, "part_networks": {}, "num_envs": 2,
}  # fmt: skip


@pytest.mark.slow
def test_parts_pictures_and_masks_are_recorded_without_loss(tmp_path):
    """Minari stores pictures of this size as JPEG unless it is told not to."""
    run = train(DqnConfig(**OF_PARTS), tmp_path / "run", console=None).run
    made = record(run, tmp_path / "parts-v0", episodes=3, epsilon=0.9)
    dataset = minari.MinariDataset(made.path / "data")
    assert [*dataset.observation_space] == ["at", "camera"]
    env = Parts()
    for episode, seed in zip(dataset, seeds_of(dataset), strict=True):
        shown = [env.reset(seed=seed)]
        for action in episode.actions:
            observation, reward, *_, info = env.step(action)
            shown.append((observation, info))
        for key in ("at", "camera"):
            wanted = np.stack([of[key] for of, _ in shown])
            np.testing.assert_array_equal(episode.observations[key], wanted, strict=True)
        masks = np.stack([info["action_mask"] for _, info in shown])
        np.testing.assert_array_equal(episode.infos["action_mask"], masks, strict=True)
        assert episode.rewards[-1] == reward and episode.terminations[-1]
    rows = record(run, tmp_path / "rows-v0", replay=True)
    for episode in minari.MinariDataset(rows.path / "data"):
        at = episode.observations["at"]
        np.testing.assert_array_equal(np.diff(at) % 4, 1)  # one place on in each step
        assert episode.observations["camera"].shape == (len(at), 40, 36, 3)
        chosen = np.take_along_axis(
            episode.infos["action_mask"][:-1], episode.actions[:, None] - 4, axis=1
        )
        assert chosen.all() and {*episode.actions} <= {4, 5, 6}  # each was allowed where it was
    # Minari sorts a dict's parts; the same env takes them all the same.
    for way in ("begin_with", "offline"):
        config = DqnConfig(**OF_PARTS | {way: str(made.path), "num_envs": 1})
        train(config, tmp_path / way, console=None)


# The replay memory.


def kept_by_hand(config, run):
    """Trains, and keeps what was shown at each time step: rows before ours, [T][N]."""
    rows = []

    def on_tick(agent, tick):
        step = tick.step
        rows.append([
            (step.observation[n].copy(), tick.actions[n], step.reward[n], step.terminated[n],
             step.truncated[n], step.autoreset[n])
            for n in range(config.num_envs)
        ])  # fmt: skip

    train(config, run, console=None, on_tick=on_tick)
    return rows


@pytest.mark.cases(0)
@pytest.mark.parametrize("stack", [1, 3])
def test_a_replay_memory_is_recorded_as_the_transitions_that_it_holds(stack, tmp_path):
    """Beside a slow twin that kept all steps; the ring was written over more than once."""
    config = DqnConfig(
        **SHORT | LIMITED | {"num_envs": 2, "replay_capacity": 120, "frame_stack": stack}
    )
    rows = kept_by_hand(config, tmp_path / "run")
    made = record(tmp_path / "run", tmp_path / "rows-v0", replay=True)
    dataset = minari.MinariDataset(made.path / "data")
    # The result of the last tick is not stored yet, so the newest row is that of the tick before;
    # 60 time steps fit into the ring.
    there = rows[-61:-1]
    wanted = []
    for env in range(2):
        own, whole = [], stack == 1
        for now in there:
            observation, _, reward, terminated, truncated, autoreset = now[env]
            if autoreset or not own:
                if own and whole:
                    wanted.append(own)
                whole = whole or bool(own)  # the oldest one lacks frames of its beginning
                own = [(observation[-4:], None, None, None)]
                continue
            # The action was chosen on what the time step before had shown.
            own.append((observation[-4:], now[env][1], reward, (terminated, truncated)))
        if whole:
            wanted.append(own)
    wanted = [of for of in wanted if len(of) > 1]
    found = [*dataset]
    assert len(found) == len(wanted) > 4

    def by_content(episodes):
        return sorted(episodes, key=lambda of: of[0].tobytes())

    ours = by_content([(of.observations, of.actions, of.rewards, of.terminations) for of in found])
    theirs = by_content([
        (np.stack([o for o, *_ in of]), np.int64([a for _, a, *_ in of[1:]]),
         np.float64([r for _, _, r, _ in of[1:]]), np.array([e[0] for *_, e in of[1:]]))
        for of in wanted
    ])  # fmt: skip
    for one, other in zip(ours, theirs, strict=True):
        for array, by_hand in zip(one, other, strict=True):
            np.testing.assert_array_equal(array, by_hand, strict=True)
    for episode in found:
        assert episode.terminations[-1] != episode.truncations[-1]
        assert not episode.terminations[:-1].any() and not episode.truncations[:-1].any()


# What is refused, and what is left behind.


def complaint(*arguments, **settings):
    with pytest.raises(RlCoreError) as refused:
        record(*arguments, **settings)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("out", "settings", "said"),
    [
        ("cartpole", {}, "NAME-v0"),
        ("a b-v0", {}, "NAME-v0"),
        ("taken-v0", {}, "taken-v0 already exists"),
        ("new-v0", {"episodes": 0}, "episodes must be a whole number >= 1"),
        ("new-v0", {"env_steps": 0}, "env_steps must be a whole number >= 1"),
        ("new-v0", {"episodes": 3, "env_steps": 3}, "leave one out"),
        ("new-v0", {"epsilon": 1.5}, "epsilon must be in [0, 1], got 1.5"),
        ("new-v0", {"epsilon": float("nan")}, "epsilon must be in [0, 1], got nan"),
        ("new-v0", {"seed": -1}, "seed must be a whole number >= 0"),
        ("new-v0", {"replay": True, "epsilon": 0.1}, "leave episodes, env_steps, epsilon"),
        ("file/new-v0", {}, "cannot write"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(run, out, settings, said, tmp_path):
    (tmp_path / "taken-v0").mkdir()
    (tmp_path / "taken-v0" / "notes").touch()
    (tmp_path / "file").touch()
    there = {*tmp_path.rglob("*")}
    assert said in complaint(run, tmp_path / out, **settings)
    assert {*tmp_path.rglob("*")} == there


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"loop": "remote", "actors": 2}, "in pieces, not in whole episodes"),
        ({"rollout": 8, "batch_size": 8}, "has none"),
    ],
    ids=["actors", "rollout"],
)
def test_a_replay_memory_without_whole_episodes_is_refused(settings, said):
    with pytest.raises(DataError, match=f"cannot record the replay memory of this run: .*{said}"):
        _require_rows(DqnConfig(**settings), None)


def test_without_minari_the_extra_is_named(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "minari", None)
    assert main(["record", str(run), str(tmp_path / "new-v0")]) == 2
    line = capsys.readouterr().err
    assert "pip install 'targetnet[data]'" in line and line.count("\n") == 1
    assert not [*tmp_path.iterdir()]


def test_an_old_minari_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.setattr(minari, "__version__", "0.5.3")
    said = complaint(run, tmp_path / "new-v0")
    assert "need Minari >= 0.5.4, and 0.5.3 is installed" in said


def test_ctrl_c_leaves_nothing(run, tmp_path):
    def watch(done, env_steps):
        if done > 3:
            assert [path.name for path in tmp_path.iterdir()] == [".new-v0.making"]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(run, tmp_path / "new-v0", episodes=50, watch=watch)
    assert not [*tmp_path.iterdir()]


@pytest.mark.thorough
def test_a_run_whose_replay_cannot_be_recorded_says_why(tmp_path):
    rollouts = SHORT | {"rollout": 10, "loss": "squared", "learn_start": 1_000, "learn_period": 4}
    config = DqnConfig(**rollouts | {"num_envs": 4, "batch_size": 20})
    run = train(config, tmp_path / "run", console=None).run
    assert "learns from rollouts" in complaint(run, tmp_path / "new-v0", replay=True)


def test_what_minari_cannot_store_is_refused_by_its_name(tmp_path):
    space = gym.spaces.Sequence(gym.spaces.Discrete(2))
    episode = RecordedSteps(np.zeros((2, 1)), np.int64([0]), np.zeros(1), True, False)
    with pytest.raises(DataError, match="observation_keys"):
        write(tmp_path, "a-v0", Form(space, gym.spaces.Discrete(2), None), [episode], {})


def test_the_command_tells_what_it_has_recorded(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    out = Path("cartpole/short-v3")
    assert main(["record", str(run), str(out), "--episodes", "2", "--epsilon", "0.2"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith(f"{out}: 2 episodes, ") and line.endswith("id is cartpole/short-v3")
    metadata = json.loads((out / "data" / "metadata.json").read_text())
    assert metadata["dataset_id"] == "cartpole/short-v3"
    assert minari.load_dataset("cartpole/short-v3").total_episodes == 2
    assert [*minari.list_local_datasets()] == ["cartpole/short-v3"]


@pytest.mark.parametrize("key", ["cam/front", 3])
def test_a_key_that_names_no_part_of_a_file_is_refused_before_anything_is_written(tmp_path, key):
    """A slash would begin a part inside of another: the dataset could not be read."""
    box = gym.spaces.Box(0, 1, (2,))
    space = gym.spaces.Tuple([box, gym.spaces.Dict({"good": box, key: box})])
    if not isinstance(key, str):
        space = gym.spaces.Dict({key: box})
    with pytest.raises(DataError, match=f"cannot store a part that is called {key!r}"):
        write(tmp_path, "x-v0", Form(space, gym.spaces.Discrete(2), None), [], {})
    assert list(tmp_path.iterdir()) == []
