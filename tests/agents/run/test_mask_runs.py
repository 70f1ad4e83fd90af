"""Runs of envs that say in other libraries' form which actions are legal, and refuse others."""

import contextlib
import json
import shutil

import gymnasium as gym
import minari
import numpy as np
import pytest

from targetnet.agents.cli.main import main
from targetnet.agents.config.envs import training_envs
from targetnet.agents.config.files import dump_config
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.data.minari_files import Form, write
from targetnet.agents.data.record import record
from targetnet.agents.loops.evaluation import evaluate
from targetnet.agents.policy.export import export
from targetnet.agents.policy.load import load_policy
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.envs.recorder import Recorder
from targetnet.envs.spaces import where_masks_are
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.errors import BoundsError, FeedError, RlCoreError
from targetnet.rl_core.seal import sealed_text
from tests.envs.masked import ID, NUM_ACTIONS

SHORT = {
    "env_id": ID, "env_steps": 320, "hidden": (6,), "batch_size": 6, "replay_capacity": 300,
    "learn_start": 40, "updates_per_learn": 1,
    "learn_period": 8, "learning_rate": 0.01, "sync_period": 20,
    "log_period": 200, "eval_period": 300, "eval_episodes": 2, "final_eval_episodes": 4,
    "xla": False, "epsilon": 0.5, "checkpoint_seconds": 0, "checkpoint_steps": 130,
}  # fmt: skip
KINDS = {
    "a part": {"n_step": 2},
    "a method": {"env_kwargs": {"by": ["method"]}, "num_envs": 3},
    "a method of a wrapper": {
        "env_kwargs": {"by": [], "right": "method"}, "env_wrapper": "tests.envs.masked:masker",
    },
    "a part, workers": {"num_envs": 2, "vectorization": "async"},
    "a method, concurrent": {
        "env_kwargs": {"by": ["method"]}, "loop": "concurrent", "learn_period": 16, "num_envs": 2,
    },
    "a part of another name, actors": {
        "env_kwargs": {"name": "mask"}, "action_masks": "mask", "loop": "remote", "actors": 2,
        "actor_steps": 5, "num_envs": 2,
    },
    "a method, memory": {
        "env_kwargs": {"by": ["method"]}, "recurrent": "gru", "recurrent_units": 4,
        "sequence_length": 6, "burn_in": 3,
    },
}  # fmt: skip
SLOW = ("a part, workers", "a method, memory", "a method, concurrent")
PART = (
    "legal actions are those of the part 'action_mask' of an observation, which is no input of the "
    'network; for all: action_masks = "off"'
)
METHOD = (
    "the env's method action_masks() says which actions are legal; to allow all: "
    'action_masks = "off"'
)


def config(**settings):
    return DqnConfig(**SHORT | settings)


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.slow) if k in SLOW else k for k in KINDS]
)
def test_it_resumes_and_replays_to_the_bit(kind, tmp_path, none_left_out):
    how = {"console": None} | ({"ray": "off"} if "actors" in kind else {})
    whole = train(config(**KINDS[kind]), tmp_path / "whole", **how)
    assert repeat(whole.run, console=None).identical
    shutil.copytree(whole.run, tmp_path / "cut")
    numbers = CheckpointStore(tmp_path / "cut/checkpoints")._numbers()
    for number in numbers[1:]:
        shutil.rmtree(tmp_path / f"cut/checkpoints/{number:08d}")
    assert len(numbers) > 1 and resume(tmp_path / "cut", **how).digest == whole.digest
    weights = RunDir.open(whole.run).load_weights()
    assert weights["torso/dense_0/w"].shape[0] == 2  # the mask is no input


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked")
    kinds = {"part": {}, "method": KINDS["a method"] | {"num_envs": 1}}
    return {
        name: train(config(**of, env_steps=60), folder / name, console=None).run
        for name, of in kinds.items()
    }


@pytest.mark.thorough
def test_a_policy_takes_the_mask_from_the_observation_or_beside_it(runs):
    with load_policy(runs["part"]) as policy:
        assert policy.observation_shape == (2,) and policy.has_action_masks
        for first in range(NUM_ACTIONS):
            mask = np.eye(NUM_ACTIONS, dtype=np.int8)[first]
            seen = {"observation": np.float32([0.3, -1]), "action_mask": mask}
            assert policy(seen) == first
            assert policy({**seen, "action_mask": 1 - mask}, mask) == first  # what is passed counts
        many = {
            "observation": np.zeros((NUM_ACTIONS, 2), np.float32),
            "action_mask": np.eye(NUM_ACTIONS),
        }
        assert policy(many).tolist() == [*range(NUM_ACTIONS)]
        with pytest.raises(FeedError, match="must have a part 'action_mask'"):
            policy({"observation": np.zeros(2, np.float32)})
        with pytest.raises(BoundsError, match="at least one action"):
            policy({**seen, "action_mask": 0 * mask})
        assert len(evaluate(policy, policy.config, 5)) == 5
    with load_policy(runs["method"]) as policy:
        with pytest.raises(RlCoreError) as refused:
            policy(np.zeros(2, np.float32))
        assert str(refused.value) == (
            f'{ID} has action masks: pass action_mask=env.get_wrapper_attr("action_masks")()'
        )
        env = gym.make("Masked-v0", by=("method",))
        observation, _ = env.reset(seed=1)
        for _ in range(20):
            mask = env.get_wrapper_attr("action_masks")()
            observation, _, over, cut, _ = env.step(policy(observation, mask))
            if over or cut:
                observation, _ = env.reset()


@pytest.mark.thorough
def test_an_exported_policy_has_the_mask_as_an_input_of_its_own(runs, tmp_path):
    for name, run in runs.items():
        out = export(run, "frozen", tmp_path / name)
        about = json.loads((out / "policy.json").read_text())
        assert about["input"] == {"observation": [2], "action_mask": [NUM_ACTIONS]}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["part", "method"])
def test_datasets_have_the_masks_in_their_infos_and_are_learned_from(runs, kind, tmp_path):
    run = runs[kind]
    of_policy = record(run, tmp_path / "policy-v0", episodes=6, epsilon=0.5)
    of_replay = record(run, tmp_path / "replay-v0", replay=True)
    for made in (of_policy, of_replay):
        dataset = minari.MinariDataset(made.path / "data")
        assert "action_mask" not in str(dataset.observation_space)
        for episode in dataset:
            masks = episode.infos["action_mask"]
            assert len(masks) == len(episode.actions) + 1
            taken = masks[np.arange(len(episode.actions)), episode.actions]
            assert taken.all() and (masks[:-1].sum(axis=1) == 2).all()
        settings = dict(RunDir.open(run).config()) | {"offline": str(made.path), "env_steps": 80}
        if kind == "part":  # which the dataset does not have
            settings["action_masks"] = "action_mask"
        assert train(DqnConfig(**settings), tmp_path / f"from-{made.path.name}", console=None)


@pytest.mark.slow
def test_a_dataset_of_another_library_has_its_masks_in_the_observations(tmp_path):
    """No infos say anything."""
    env = gym.make("Masked-v0")
    recorder, rng = Recorder(env, env.observation_space), np.random.default_rng(0)
    for seed in range(10):
        observation, _ = recorder.reset(seed=seed)
        over = cut = False
        while not (over or cut):
            action = rng.choice(np.flatnonzero(observation["action_mask"]))
            observation, _, over, cut, _ = recorder.step(action)
    form = Form(env.observation_space, env.action_space, env.spec)
    (tmp_path / "theirs-v0").mkdir()
    write(tmp_path / "theirs-v0", "theirs-v0", form, recorder.ended, {})
    for named in ("auto", "action_mask"):
        of = {"offline": str(tmp_path / "theirs-v0"), "action_masks": named, "env_steps": 60}
        outcome = train(config(**of, checkpoint_steps=0), tmp_path / named, console=None)
        assert outcome.updates > 0
        assert RunDir.open(outcome.run).load_weights()["torso/dense_0/w"].shape[0] == 2


def said(**settings):
    of = DqnConfig(env_id=ID, **settings)
    with contextlib.closing(training_envs(of)) as envs:
        return where_masks_are(envs.spaces, of.action_masks)


def test_one_line_says_where_the_masks_are():
    assert said() == PART
    seen = said(observation_keys=("action_mask", "observation"))
    assert seen == PART.replace(", which is no input of the network", "")
    assert said(env_kwargs={"by": ["method"]}) == METHOD
    assert said(env_kwargs={"by": ["info"]}) is None  # as ever
    assert said(action_masks="off") is None
    assert said(env_kwargs={"size": 7}) == (
        "the part 'action_mask' of an observation is an input of the network, no mask: "
        "its shape is (7,), and a mask has 4 numbers"
    )


@pytest.mark.thorough
def test_a_run_begins_with_that_line(tmp_path, capsys):
    settings = config(env_steps=20, checkpoint_steps=0, learn_start=0, final_eval_episodes=1)
    (tmp_path / "masked.toml").write_text(dump_config(settings))
    run = str(tmp_path / "run")
    assert main(["train", str(tmp_path / "masked.toml"), "--run", run]) == 0
    assert capsys.readouterr().out.count(PART) == 1


@pytest.mark.slow
def test_a_run_of_before_0_3_keeps_the_part_as_an_input(tmp_path):
    """Its weights have a row for each of its numbers."""
    begun = config(action_masks="info", env_kwargs={"by": ["info", "part"], "right": "info"})
    run = train(begun, tmp_path / "run", console=None).run
    path = run / "config.toml"
    older = [
        line
        for line in path.read_text().splitlines()[1:]
        if not line.startswith(("action_masks", "targetnet"))
    ]
    path.write_text(sealed_text("\n".join(older) + "\n"))
    assert RunDir.open(run).config() == begun
    # As `train CONFIG --resume` does it, with a config that knows nothing of it.
    later = DqnConfig(**dict(begun) | {"action_masks": "auto", "env_steps": 400})
    assert resume(run, later, console=None).env_steps == 400
    assert RunDir.open(run).load_weights()["torso/dense_0/w"].shape[0] == 2 + NUM_ACTIONS
    with load_policy(run) as policy:
        assert set(policy.observation_shape) == {"observation", "action_mask"}
