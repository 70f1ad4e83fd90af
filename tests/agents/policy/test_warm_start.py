"""Beginning with another run's weights: which fit, what is said if they do not, and exactness."""

import numpy as np
import pytest

from targetnet.agents.cli.main import main
from targetnet.agents.config.files import dump_config
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.policy.trained_policy import fitted
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.checkpoint.weights_file import weights_bytes
from targetnet.rl_core.errors import ConfigError, ScopeMismatch
from tests.agents.run.interrupting import Crash, crash_at

SHORT = DqnConfig(
    env_steps=300, hidden=(8,), batch_size=8, replay_capacity=500, learn_start=50,
    eval_period=1_000, eval_episodes=1, final_eval_episodes=1, xla=False, checkpoint_steps=100,
)  # fmt: skip
OWN = {
    "torso/dense_0/w": np.zeros((4, 8), np.float32),
    "torso/dense_0/b": np.zeros(8, np.float32),
    "head/q/w": np.zeros((8, 2), np.float32),
}


def like(names, value=1.0):
    return {new: np.full_like(OWN[old], value) for new, old in names.items()}


def test_all_of_it_fits_by_the_same_names():
    given = {name: array + 1 for name, array in OWN.items()}
    assert fitted(given, OWN).keys() == OWN.keys()


def test_a_block_is_taken_and_the_others_left():
    given = {name: array + 1 for name, array in OWN.items()} | {"other": np.zeros(3)}
    part = fitted(given, OWN, blocks=["torso"])
    assert (
        sorted(part) == ["torso/dense_0/b", "torso/dense_0/w"]
        and (part["torso/dense_0/w"] == 1).all()
    )


def test_names_and_first_parts_of_names_are_renamed_in_turn():
    given = like({"enc/l/w": "torso/dense_0/w", "enc/l/b": "torso/dense_0/b", "out": "head/q/w"})
    rename = ["enc=torso", "torso/l=torso/dense_0", "out=head/q/w"]
    assert fitted(given, OWN, rename=rename).keys() == OWN.keys()


def test_a_name_that_only_begins_the_same_is_another():
    given = {"torso_2/x": np.zeros(1)} | {n: a for n, a in OWN.items() if n != "head/q/w"}
    assert "torso_2/x" not in fitted(given, OWN, rename=["torso/dense_0/w=torso/dense_0/w2",
        "torso/dense_0/w2=torso/dense_0/w"], blocks=["torso"])  # fmt: skip


@pytest.mark.parametrize(
    ("given", "settings", "said"),
    [
        ({}, {}, "head/q/w should be float32(8, 2), got absent"),
        (OWN | {"more": np.zeros(2)}, {}, "more should be absent, got float64(2,)"),
        (OWN | {"head/q/w": np.zeros((8, 3), np.float32)}, {}, "got float32(8, 3)"),
        (OWN | {"head/q/w": np.zeros((8, 2))}, {}, "float32(8, 2), got float64(8, 2)"),
        ({}, {"blocks": ["torso"]}, "torso/dense_0/b should be float32(8,), got absent"),
    ],
)
def test_what_does_not_fit_is_said_by_name(given, settings, said):
    with pytest.raises(ScopeMismatch) as error:
        fitted(given, OWN, **settings)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"blocks": ["tors"]}, "did you mean 'torso'"),
        ({"rename": ["torso"]}, "wants old=new"),
        ({"rename": ["=x"]}, "wants old=new"),
        ({"rename": ["tor=x"]}, "have nothing named 'tor'"),
        ({"rename": ["torso/dense_0/w=head/q/w"]}, "two of the weights would have the same name"),
    ],
)
def test_a_mistake_names_the_flag(settings, said):
    with pytest.raises(ConfigError, match=f"^--.*{said}"):
        fitted(OWN, OWN, **settings)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return train(SHORT, tmp_path_factory.mktemp("runs") / "first")


def begun(seen):
    """What both networks are before the first update."""

    def on_tick(agent, tick):
        if not seen:
            seen.update(agent.state.read().variables)

    return on_tick


@pytest.mark.thorough
def test_a_run_begins_with_another_runs_torso_in_both_networks(first, tmp_path):
    given, seen = RunDir.open(first.run).load_weights(), {}
    config = SHORT.model_copy(update={"seed": 9})

    def torso(own):
        return fitted(given, own, blocks=["torso"])

    train(config, tmp_path / "second", initial=torso, on_tick=begun(seen))
    for name, weights in given.items():
        same = np.array_equal(seen[f"online/{name}"], weights)
        assert same == name.startswith("torso/")
        np.testing.assert_array_equal(seen[f"online/{name}"], seen[f"target/{name}"])


@pytest.mark.thorough
def test_it_is_repeated_and_resumed_with_those_weights(first, tmp_path):
    given = RunDir.open(first.run).load_weights()
    straight = train(SHORT, tmp_path / "straight", initial=lambda own: fitted(given, own))
    assert straight.digest != first.digest
    assert repeat(straight.run).identical

    run = tmp_path / "broken"
    with pytest.raises(Crash):  # before the first checkpoint
        train(SHORT, run, initial=lambda own: fitted(given, own), on_tick=crash_at(60))
    assert CheckpointStore(run / "checkpoints").latest() is None
    assert resume(run).digest == straight.digest


@pytest.mark.thorough
def test_from_the_command_line_by_run_and_by_file(first, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short.toml").write_text(dump_config(SHORT))
    weights = RunDir.open(first.run).load_weights()
    other = {name.replace("torso", "encoder"): value for name, value in weights.items()}
    (tmp_path / "other.safetensors").write_bytes(weights_bytes(other))
    command = ["train", "short.toml", "--run"]
    assert main([*command, "a", "--init-from", str(first.run)]) == 0
    renamed = ["--init-from", "other.safetensors", "--rename", "encoder=torso"]
    assert main([*command, "b", *renamed]) == 0
    digests = [RunDir.open(tmp_path / name).load_digest().digest for name in "ab"]
    assert digests[0] == digests[1] != first.digest
    capsys.readouterr()
    for arguments, said in (
        (["--init-from", "other.safetensors"], "encoder/dense_0/b should be absent"),
        (["--init-from", "none.safetensors"], "there is no such file"),
        (["--init-from", "none"], "is not a run directory"),
        (["--init-from", str(first.run), "--blocks", "haed"], "did you mean 'head'"),
        (["--blocks", "head"], "--rename and --blocks need --init-from"),
    ):
        assert main([*command, "c", *arguments]) == 2
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1 and not (tmp_path / "c").exists()
