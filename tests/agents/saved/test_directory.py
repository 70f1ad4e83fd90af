"""Run directories: never written over, and what is damaged is said so."""

import errno
import io
import json
import re
import zipfile
from importlib.metadata import version

import numpy as np
import pytest
from safetensors.numpy import save

from targetnet.agents.config.files import load_config
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.saved.directory import EndDigest, RunDir, RunResult, read_result, require_free
from targetnet.agents.saved.machines import add_machine, machines_of
from targetnet.rl_core.checkpoint.weights_file import read_weights
from targetnet.rl_core.control.commands import set_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.errors import ConfigError, RunDirError
from targetnet.rl_core.seal import sealed_text

CONFIG = DqnConfig(sync_period=7)
WEIGHTS = {
    "torso/dense_0/w": np.float32([[1, 2], [3, 4]]),
    "torso/dense_0/b": np.float32([0.1, -0.0]),
    "head/q/w": np.zeros((0, 3), np.float32),
}


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def run(tmp_path):
    return RunDir.create(tmp_path / "a run", "cartpole", CONFIG)


def listing(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*"))


def test_a_new_run_holds_its_config_and_nothing_else(run):
    assert listing(run.path) == ["config.toml"]
    assert RunDir.open(run.path).config() == CONFIG


def test_missing_parents_are_made(tmp_path):
    run = RunDir.create(tmp_path / "x" / "y" / "z", "cartpole", CONFIG)
    assert run.path.is_dir()


def test_without_a_path_runs_are_numbered_by_name(tmp_path):
    made = [RunDir.create(None, name, CONFIG).path for name in ("a", "a", "b", "a")]
    assert [str(path) for path in made] == ["runs/a-1", "runs/a-2", "runs/b-1", "runs/a-3"]


def test_the_next_number_follows_the_largest_and_is_no_text(tmp_path):
    """runs/a-2 was deleted: a new run must not be taken for it. And 10 comes after 9."""
    for number in (1, 9, 10):
        (tmp_path / "work" / "runs" / f"a-{number}").mkdir(parents=True)
    (tmp_path / "work" / "runs" / "a-best").mkdir()
    (tmp_path / "work" / "runs" / "a-b-77").mkdir()
    assert str(RunDir.create(None, "a", CONFIG).path) == "runs/a-11"


def test_a_directory_that_holds_a_run_is_never_written_over(run):
    before = (run.path / "config.toml").read_bytes()
    for attempt in (require_free, lambda path: RunDir.create(path, "x", DqnConfig())):
        with pytest.raises(RunDirError, match="already holds a run"):
            attempt(run.path)
    assert (run.path / "config.toml").read_bytes() == before
    assert listing(run.path) == ["config.toml"]


def test_an_empty_directory_may_be_used(tmp_path):
    (tmp_path / "empty").mkdir()
    require_free(tmp_path / "empty")
    assert RunDir.create(tmp_path / "empty", "x", CONFIG).config() == CONFIG


@pytest.mark.parametrize(
    "left",
    [
        "control/log.jsonl", "control/arrivals.bin", "checkpoints/rows/x", "result.json",
        "weights.safetensors",
    ],
)  # fmt: skip
def test_what_is_left_of_another_run_does_not_become_part_of_a_new_one(tmp_path, left):
    """As `rm runs/x/*` leaves it, without -r: a run would obey the log and keep the checkpoints."""
    path = tmp_path / "run"
    (path / left).parent.mkdir(parents=True)
    (path / left).write_text("x")
    before = listing(tmp_path)
    for attempt in (require_free, lambda path: RunDir.create(path, "x", CONFIG)):
        with pytest.raises(RunDirError, match=f"still has {left.split('/rows')[0]} of another run"):
            attempt(path)
    assert listing(tmp_path) == before


@pytest.mark.parametrize("named", [True, False])
def test_a_run_whose_config_cannot_be_written_leaves_no_directory(tmp_path, monkeypatch, named):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()

    def full(*of):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("targetnet.agents.saved.directory.write_whole", full)
    path = tmp_path / "runs/of/mine" if named else None
    with pytest.raises(RunDirError, match="No space left on device"):
        RunDir.create(path, "x", CONFIG)
    assert not [*(tmp_path / "runs").iterdir()]


@pytest.mark.parametrize("name", ["a**b", "a[1]", "a?"])
def test_a_name_may_have_characters_that_mean_something_in_a_pattern(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    made = [RunDir.create(None, name, CONFIG).path.name for _ in range(2)]
    assert made == [f"{name}-1", f"{name}-2"]


def test_command_files_that_wait_for_a_run_are_not_of_another(tmp_path):
    files = ControlFiles(tmp_path / "run")
    files.run.mkdir()
    files.make()
    files.log.touch()
    command_file = submit(files, set_command("sync_period", 5, "cli"))
    require_free(files.run)
    assert command_file.exists()
    files.log.write_text("of another\n")
    with pytest.raises(RunDirError, match=r"still has control/log.jsonl of another run"):
        require_free(files.run)


def test_a_path_that_the_system_does_not_take_is_told_in_a_line(tmp_path):
    with pytest.raises(RunDirError, match=r"cannot write a run into .*too long"):
        require_free(tmp_path / ("x" * 300))


def test_asking_whether_a_path_is_free_writes_nothing(tmp_path):
    before = listing(tmp_path)
    require_free(tmp_path / "x" / "y")
    assert listing(tmp_path) == before


@pytest.mark.parametrize("name", ["file", "file/below", "file/far/below"])
def test_a_file_in_the_way_is_refused_and_left_as_it_is(tmp_path, name):
    (tmp_path / "file").write_text("mine")
    for attempt in (require_free, lambda path: RunDir.create(path, "x", CONFIG)):
        with pytest.raises(RunDirError, match="file") as caught:
            attempt(tmp_path / name)
        assert "\n" not in str(caught.value)
    assert (tmp_path / "file").read_text() == "mine"
    assert listing(tmp_path) == ["file", "work"]


@pytest.mark.parametrize("name", ["missing", "file", "empty"])
def test_what_is_no_run_cannot_be_opened(tmp_path, name):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunDirError, match=name):
        RunDir.open(tmp_path / name)


def test_the_board_of_a_numbered_run_shows_its_neighbours(tmp_path):
    run = RunDir.create(None, "a", CONFIG)
    assert run.logdir.resolve() == (tmp_path / "work" / "runs").resolve()


def test_the_board_of_a_run_elsewhere_shows_it_alone(run):
    assert run.logdir == run.path


# Files.


def test_weights_come_back_bit_for_bit(run):
    run.save_weights(WEIGHTS)
    loaded = RunDir.open(run.path).load_weights()
    assert loaded.keys() == WEIGHTS.keys()
    for name, value in WEIGHTS.items():
        assert loaded[name].dtype == value.dtype
        assert loaded[name].tobytes() == value.tobytes()
        assert loaded[name].shape == value.shape


def test_saving_again_replaces_the_weights(run):
    run.save_weights(WEIGHTS)
    run.save_weights({"other": np.float32([5])})
    assert list(run.load_weights()) == ["other"]
    assert listing(run.path) == ["config.toml", "weights.safetensors"]


def test_the_same_weights_make_the_same_bytes(run, tmp_path):
    first = run.save_weights(WEIGHTS).read_bytes()
    other = RunDir.create(tmp_path / "other", "x", CONFIG)
    assert other.save_weights(WEIGHTS).read_bytes() == first


def test_a_run_without_weights_says_so(run):
    with pytest.raises(RunDirError, match="weights"):
        run.load_weights()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"not a zip file",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data[:100] + bytes([data[100] ^ 255]) + data[101:],
        lambda data: data[:200] + bytes(50) + data[250:],
    ],
    ids=["empty", "text", "half", "last byte", "one byte", "zeros within"],
)
def test_damaged_weights_are_refused_by_path_in_one_line(run, damage):
    path = run.save_weights(WEIGHTS)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RunDirError, match=r"weights\.safetensors") as caught:
        run.load_weights()
    assert "\n" not in str(caught.value)


def turned(data):
    """The last digit before the seal became another one."""
    (*_, digit) = re.finditer(rb"\d", data[: data.index(b'"seal"')])
    return data[: digit.start()] + b"%d" % ((int(digit[0]) + 1) % 10) + data[digit.end() :]


def unsealed(data):
    return re.sub(rb',\s*"seal": "\w+"', b"", data)


def test_no_single_damaged_byte_gives_other_numbers_or_another_exception(run):
    path = run.save_weights(WEIGHTS)
    data = path.read_bytes()
    values = {value.tobytes() for value in WEIGHTS.values()}
    for place in range(len(data)):
        for flip in (1, 128):  # the second makes a flag of a number
            path.write_bytes(data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :])
            try:
                loaded = run.load_weights()
            except RunDirError:
                continue
            # A name may differ, which the agent refuses; a number may not.
            assert {value.tobytes() for value in loaded.values()} <= values, place


def test_weights_of_a_run_without_their_checksum_are_refused(run):
    """Another tool's may be named with --init-from."""
    path = run.path / "weights.safetensors"
    path.write_bytes(save(WEIGHTS))
    assert read_weights(path).keys() == WEIGHTS.keys()
    with pytest.raises(RunDirError, match=r"weights\.safetensors: .* its checksum is missing"):
        run.load_weights()


@pytest.mark.parametrize("name", ["result.json", "digest.json", "sinks.json", "machines.json"])
@pytest.mark.parametrize("change", [turned, unsealed])
def test_a_file_of_a_run_with_another_digit_or_without_its_seal_is_refused(run, name, change):
    run.save_result(RunResult(env_steps=8, updates=2, mean=1.5, std=0.5, min=1, max=2))
    run.save_digest(EndDigest(digest="0" * 64, tick=8, env_step=8, update=2))
    add_machine(run.path, "host", "a processor 1")
    run.sink_id()
    read = {
        "result.json": lambda: read_result(run.path),
        "digest.json": run.load_digest,
        "sinks.json": run.sink_id,
        "machines.json": lambda: machines_of(run.path),
    }[name]
    assert read()
    path = run.path / name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(RunDirError, match=rf"{name}: it is damaged: (not what|its seal)") as error:
        read()
    assert "\n" not in str(error.value)


class Bomb:
    def __reduce__(self):
        return (print, ("a pickle was loaded",))


def test_a_pickle_in_the_weights_is_refused_and_not_run(run, capsys):
    np.savez(run.path / "weights.safetensors", w=np.array([Bomb()], dtype=object))
    with pytest.raises(RunDirError, match=r"weights\.safetensors"):
        run.load_weights()
    assert capsys.readouterr().out == ""


def test_a_plain_array_or_a_zip_of_anything_else_is_refused(run):
    plain = io.BytesIO()
    np.save(plain, np.float32([1]))
    (run.path / "weights.safetensors").write_bytes(plain.getvalue())
    with pytest.raises(RunDirError, match=r"weights\.safetensors"):
        run.load_weights()
    with zipfile.ZipFile(run.path / "weights.safetensors", "w") as archive:
        archive.writestr("w.npy", b"no array")
    with pytest.raises(RunDirError, match=r"weights\.safetensors"):
        run.load_weights()


def test_the_result_is_json(run):
    path = run.save_result(RunResult(env_steps=8, updates=2, mean=1.5, std=0.5, min=1, max=2))
    fields = json.loads(path.read_text())
    assert fields.pop("seal") and fields.pop("targetnet") and RunResult(**fields).mean == 1.5
    assert [*fields] == [
        "env_steps", "updates", "seconds", "episodes", "mean", "std", "min", "max", "cut",
        "returns",
    ]  # fmt: skip


def test_what_cannot_be_written_whole_leaves_what_was_there(run, monkeypatch):
    """The disk is full on the second save: the first weights are still all there."""
    run.save_weights(WEIGHTS)
    before = (run.path / "weights.safetensors").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    refused = set()
    for name in ("fsync", "replace", "rename"):
        with monkeypatch.context() as patched:
            patched.setattr(f"os.{name}", full)
            try:
                run.save_weights({"other": np.float32([5])})
            except RunDirError as error:
                assert "No space left" in str(error) and "\n" not in str(error)
                refused.add(name)
                assert (run.path / "weights.safetensors").read_bytes() == before
    assert {"fsync", "replace"} <= refused
    assert listing(run.path) == ["config.toml", "weights.safetensors"]


def test_a_config_damaged_afterwards_is_refused_with_its_line(run):
    (run.path / "config.toml").write_text("sync_period = \n")
    with pytest.raises(ConfigError, match=r"config\.toml.*line 1"):
        RunDir.open(run.path).config()


OURS, THEIRS = "agents.controllers.bandit:Bandit", "targetnet.agents.controllers.bandit:Bandit"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (sealed_text(f'controller = "{OURS}"\n'), THEIRS),  # by 0.2
        (f'controller = "{OURS}"\n', THEIRS),  # by 0.1, without a seal
        (sealed_text(f'targetnet = "0.3.0"\ncontroller = "{OURS}"\n'), OURS),  # the user's `agents`
        (sealed_text('controller = "mine.agents.bandit:Bandit"\n'), "mine.agents.bandit:Bandit"),
    ],
)
def test_a_module_is_ours_if_a_version_before_0_3_wrote_its_name(run, written, read):
    """Until then our packages were at the top level, and the user's had other names."""
    (run.path / "config.toml").write_text(written)
    assert run.config().controller == read


def test_a_config_that_lost_its_seal_is_refused(run):
    file = run.path / "config.toml"
    assert file.read_text().splitlines()[1] == f'targetnet = "{version("targetnet")}"'
    file.write_text(file.read_text().split("\n", 1)[1])
    with pytest.raises(ConfigError, match="its first line, which shows whether"):
        run.config()


def test_a_runs_config_is_a_config_to_train_from(run, tmp_path):
    """With its seal, and changed after the first line was taken out."""
    file = run.path / "config.toml"
    assert load_config(file) == CONFIG
    (tmp_path / "mine.toml").write_text(file.read_text().split("\n", 1)[1])
    assert load_config(tmp_path / "mine.toml") == CONFIG
    (tmp_path / "old.toml").write_text(sealed_text(f'controller = "{OURS}"\n'))
    assert load_config(tmp_path / "old.toml").controller == THEIRS
    (tmp_path / "new.toml").write_text(f'controller = "{OURS}"\n')
    assert load_config(tmp_path / "new.toml").controller == OURS
