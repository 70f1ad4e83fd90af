"""The command line: exit codes, one line for every mistake, and nothing left behind."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from targetnet.agents.cli.main import _COMMANDS, _ImportPlaceholder, _parse, main
from targetnet.agents.cli.train_commands import _log_to
from targetnet.agents.config.files import load_config, shipped_configs
from targetnet.rl_core.errors import EnvFailed

SHORT = """
env_steps = 200
hidden = [8]
batch_size = 8
replay_capacity = 500
learn_start = 50
learn_period = 10
log_period = 50
eval_period = 100
eval_episodes = 2
final_eval_episodes = 3
xla = false
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty directory to be in, with one config in it."""
    monkeypatch.delenv("TARGETNET_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short.toml").write_text(SHORT)
    return tmp_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory, pool):
    """A finished run, made by the command."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "short.toml").write_text(SHORT)
    with pool.open():
        assert main(["train", str(folder / "short.toml"), "--run", str(folder / "run")]) == 0
    return folder / "run"


def listing(folder):
    return sorted(
        (str(p), p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else b"")
        for p in folder.rglob("*")
    )


def refused(capsys, folder, *arguments):
    """The one line that a mistake gets."""
    before = listing(folder)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("targetnet: ") and err.endswith("\n") and err.count("\n") == 1
    assert listing(folder) == before
    return err


# Mistakes.


@pytest.mark.cases(24)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "cartpol"], ["'cartpol'", "did you mean 'cartpole'"]),
        (["train", "none.toml"], ["none.toml"]),
        (["train", "short.toml", "--set", "env_id=CartPol-v1"], ["did you mean 'CartPole-v1'"]),
        (["train", "short.toml", "--set", "env_id=CartPole"], ["CartPole-v1"]),
        (["train", "short.toml", "--set", "env_id=Pendulum-v1"], ["Pendulum-v1", "continuous"]),
        (["train", "short.toml", "--set", "sync_perod=3"], ["did you mean 'sync_period'"]),
        (["train", "short.toml", "--set", "gamma=0.9"], ["'gamma'; gamma of other libraries is"]),
        (["train", "short.toml", "--buffer-size", "9"], ["is replay_capacity here: --set KEY=VAL"]),
        (["train", "short.toml", "--env-steps", "9"], ["is a key of the config: --set env_steps="]),
        (["train", "short.toml", "--set", "sync_period=fast"], ["sync_period", "'fast'"]),
        (["train", "short.toml", "--set", "sync_period=0"], ["sync_period", ">= 1", "got 0"]),
        (["train", "short.toml", "--set", "learning_rate=nan"], ["learning_rate", "nan"]),
        (["train", "short.toml", "--set", "sync_period"], ["name=value", "'sync_period'"]),
        (["train", "short.toml", "--set", "sync_period", "3"], ["name=value"]),
        (["train", "short.toml", "--seed", "-1"], ["seed"]),
        (["train", "short.toml", "--seed", "x"], ["seed", "x"]),
        (["train", "short.toml", "--seed", str(2**64)], ["seed"]),
        (
            ["train", "short.toml", "--sed", "3"],
            ["--sed, 3; did you mean --seed? (see targetnet train "],
        ),
        (["train", "CartPol-v1"], ["no env 'CartPol-v1'; did you mean 'CartPole-v1'"]),
        (["train", "nothing:Here-v0"], ["'nothing:Here-v0'"]),
        (
            ["train", "PongNoFrameskip-v4"],
            ["is now 'ALE/Pong-v5' with", "targetnet train atari-dqn"],
        ),
        (["train", "a" * 300 + "/" + "b" * 300 + "-v1"], ["cannot read config"]),
        (["train", ":".join(c * 100 for c in "abc") + "-v0"], ["cannot be imported"]),
        (["train"], ["CONFIG"]),
        (
            ["train", "short.toml", "--seed", "1.5"],
            ["--seed must be a whole number, got '1.5' (see"],
        ),
        (["board", "runs", "--port", "x"], ["--port must be a whole number, got 'x' (see"]),
        (["train", "short.toml", "--dir", "x"], ["--dir x; targetnet sweep has it (see"]),
        (["trian"], ["no command 'trian'; did you mean 'train'? (train, resume,"]),
        (["-x"], ["-x", "(see targetnet --help)"]),
        (["eval", "nothing"], ["nothing", "config.toml"]),
        (["eval", "."], ["config.toml"]),
        (["eval", "short.toml"], ["short.toml"]),
        (["eval"], ["RUN"]),
        (["train", "short.toml", "--run", "short.toml"], ["short.toml", "not a directory"]),
        (["train", "short.toml", "--run", "short.toml/run"], ["short.toml", "not a directory"]),
        (
            ["train", "short.toml", "--set", f"replay_capacity={10**13}"],
            ["10,000,000,000,000 rows", "TB", "GB"],
        ),
        (["train", "short.toml", "--set", f"sync_period={2**63}"], ["sync_period"]),
    ],
    ids=lambda case: " ".join(case)[:60] or "(nothing)",
)
def test_a_mistake_is_told_in_one_line_with_exit_code_2_and_leaves_nothing(
    here, capsys, arguments, said
):
    err = refused(capsys, here, *arguments)
    for part in said:
        assert part in err


def test_malformed_toml_is_told_with_its_line(here, capsys):
    (here / "bad.toml").write_text("sync_period = 7\ntau = \n")
    err = refused(capsys, here, "train", "bad.toml")
    assert "bad.toml" in err and "line 2" in err


@pytest.mark.parametrize("toml", ["sync_perod = 7", "sync_period = 0", "sync_period = 'x'"])
def test_a_mistake_in_a_file_names_the_file(here, capsys, toml):
    (here / "bad.toml").write_text(toml)
    assert "bad.toml" in refused(capsys, here, "train", "bad.toml")


@pytest.mark.thorough
def test_a_directory_that_holds_a_run_is_not_trained_into(trained, capsys):
    err = refused(capsys, trained, "train", "short.toml", "--run", str(trained))
    assert "already holds a run" in err and "--run" in err


@contextlib.contextmanager
def nobody():
    """Whoever may write anywhere is somebody else meanwhile."""
    if os.getuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_a_directory_that_cannot_be_written_is_refused(capsys, monkeypatch):
    # What nobody could not import is imported before, and its home is one that anybody may enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "short.toml").write_text(SHORT)
        (folder / "locked").mkdir(mode=0o555)
        monkeypatch.chdir(folder)
        assert "not a directory" in refused(
            capsys, folder, "train", "short.toml", "--run", "short.toml"
        )
        before = listing(folder)
        with nobody():
            code = main(["train", "short.toml", "--run", "locked/run"])
        err = capsys.readouterr().err
        assert code == 2 and listing(folder) == before
        assert err.startswith("targetnet: ") and err.count("\n") == 1
        assert f"{folder / 'locked'} is not writable" in err
        monkeypatch.undo()


def test_a_file_where_the_numbered_runs_go_is_refused(here, capsys):
    (here / "runs").write_text("mine")
    assert "runs" in refused(capsys, here, "train", "short.toml")


@pytest.mark.parametrize("episodes", ["0", "-1", "x", "1.5"])
def test_a_number_of_episodes_that_makes_no_sense_is_refused(trained, capsys, episodes):
    err = refused(capsys, trained, "eval", str(trained), "--episodes", episodes)
    assert "episodes" in err and episodes in err


def test_a_run_without_weights_cannot_be_evaluated(here, capsys):
    (here / "run").mkdir()
    (here / "run" / "config.toml").write_text(SHORT)
    assert "weights" in refused(capsys, here, "eval", "run")


def test_weights_of_another_network_cannot_be_evaluated(here, trained, capsys):
    (here / "run").mkdir()
    (here / "run" / "config.toml").write_text(SHORT.replace("[8]", "[9]"))
    (here / "run" / "weights.safetensors").write_bytes(
        (trained / "weights.safetensors").read_bytes()
    )
    assert "torso" in refused(capsys, here, "eval", "run")


def test_damaged_weights_cannot_be_evaluated(here, capsys):
    (here / "run").mkdir()
    (here / "run" / "config.toml").write_text(SHORT)
    (here / "run" / "weights.safetensors").write_bytes(b"PK\x03\x04 and then nothing")
    assert "weights.safetensors" in refused(capsys, here, "eval", "run")


def test_the_traceback_is_shown_when_debugging_and_the_line_last(here, capsys, monkeypatch):
    monkeypatch.setenv("TARGETNET_DEBUG", "1")
    assert main(["train", "cartpol"]) == 2
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert err.splitlines()[-1].startswith("targetnet: no shipped config 'cartpol'")


def test_codes_that_a_terminal_obeys_are_shown_and_not_sent(capsys, monkeypatch):
    def fail(*_):
        raise EnvFailed("it failed") from RuntimeError("\x1b[31mred\n\x1b]0;title\x07")

    monkeypatch.setattr("targetnet.agents.cli.main._run", fail)
    assert main(["ls"]) == 1
    err = capsys.readouterr().err
    assert "RuntimeError: \\x1b[31mred\n\\x1b]0;title\\x07\ntargetnet: it failed\n" in err


# What works.


@pytest.mark.thorough
def test_train_shows_progress_and_says_where_the_weights_are(here, capsys):
    arguments = ["train", "short.toml", "--run", "mine", "--set", "env_steps=100", "seed=5"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "mine: CartPole-v1" in out
    assert re.search(r"env step \d+:", out) and "mine/weights.safetensors" in out
    config = (here / "mine" / "config.toml").read_text()
    assert "env_steps = 100\n" in config and "seed = 5\n" in config


def test_without_run_the_next_number_of_the_config_is_taken(here, capsys):
    for number in (1, 2):
        assert main(["train", "short.toml", "--set", "env_steps=20"]) == 0
        assert (here / "runs" / f"short-{number}" / "weights.safetensors").is_file()


def test_an_envs_id_is_trained_with_the_defaults(here, capsys):
    small = ["env_steps=20", "learn_start=10", "hidden=[8]", "xla=false", "final_eval_episodes=1"]
    assert main(["train", "CartPole-v1", "--set", *small]) == 0
    line = "the defaults; a config made for this env: targetnet train cartpole"
    assert capsys.readouterr().out.splitlines()[0] == line
    assert (here / "runs" / "CartPole-v1-1" / "weights.safetensors").is_file()


def test_seed_on_the_command_line_is_the_runs(here, capsys):
    arguments = ["train", "short.toml", "--run", "mine", "--seed", "9", "--set", "env_steps=20"]
    assert main(arguments) == 0
    assert "seed = 9\n" in (here / "mine" / "config.toml").read_text()


@pytest.mark.thorough
def test_a_run_that_cannot_learn_says_so_at_its_start(here, capsys):
    more = ["--set", "learn_start=1000", "env_steps=20"]
    assert main(["train", "short.toml", "--run", "mine", *more]) == 0
    line = (
        "this run makes no update: its first one would come at env step 1,000 at the earliest "
        "(learn_start = 1,000, learn_period = 10), and the run ends at 20; lower learn_start or "
        "learn_period, or raise env_steps"
    )
    assert capsys.readouterr().out.splitlines()[0] == line
    assert main(["train", "short.toml", "--run", "both", "--seeds", "2", *more]) == 0
    assert f"m00, m01: {line}" in capsys.readouterr().out.splitlines()


def test_eval_json_is_one_object_with_the_returns_summed_up(trained, capsys):
    before = listing(trained)
    assert main(["eval", str(trained), "--episodes", "4", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    result = json.loads(out)
    assert list(result) == ["episodes", "mean", "std", "min", "max", "cut"]
    assert (result["episodes"], result["cut"]) == (4, 0)
    assert result["min"] <= result["mean"] <= result["max"]
    assert listing(trained) == before


def test_eval_with_epsilon_plays_random_actions_too_and_says_so(trained, capsys):
    for epsilon in ("0.5", "0.5", "0"):
        wanted = ["--episodes", "3", "--seed", "7", "--epsilon", epsilon]
        assert main(["eval", str(trained), *wanted]) == 0
    half, again, greedy = capsys.readouterr().out.splitlines()
    assert half == again and half.startswith("return with epsilon 0.5 ")
    assert greedy.startswith("greedy return ") and greedy.split()[2] != half.split()[4]
    assert "epsilon must be a number in [0, 1], got 2" in refused(
        capsys, trained, "eval", str(trained), "--epsilon", "2"
    )


def test_eval_is_for_people_without_json_and_repeats_with_a_seed(trained, capsys):
    outs = []
    for seed in ("1", "1", "2"):
        assert main(["eval", str(trained), "--episodes", "3", "--seed", seed]) == 0
        outs.append(capsys.readouterr().out)
    assert outs[0] == outs[1] != outs[2]
    assert "of 3 episodes" in outs[0] and not outs[0].startswith("{")


def test_configs_with_a_name_shows_that_config_with_all_its_values(here, capsys):
    assert main(["configs", "cartpole"]) == 0
    (here / "copy.toml").write_text(capsys.readouterr().out)
    assert load_config(here / "copy.toml") == load_config("cartpole")
    assert "did you mean 'cartpole'" in refused(capsys, here, "configs", "cartpol")


@pytest.mark.parametrize("command", sorted(_COMMANDS.keys() - {"do"}))  # its actions are a list
def test_each_option_of_a_help_has_one_line_and_no_opposite(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    out = capsys.readouterr().out
    assert "None" not in out and re.search(r" --no-(?!wait|prune)", out) is None
    _, *options = out.partition(" options ")[2].splitlines()
    texts = [line.strip(" |│") for line in options if re.search("[a-z]", line)]
    texts_begin = [not re.match(r"-\S+( \S+)?$", text) for text in texts]
    assert any(texts_begin)  # beside an option, or below it
    assert not any(begun and b[0] != "-" for begun, b in zip(texts_begin, texts[1:], strict=False))


def test_configs_lists_the_shipped_ones_by_env_in_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["configs"]) == 0
    out = capsys.readouterr().out
    for name in shipped_configs():
        (line,) = (line for line in out.splitlines() if line.startswith(f"  {name} "))
        assert f"{load_config(name).env_steps:,}" in line
        # Beside the name, a line has room for half of a sentence.
        assert len(line.split(",000 ")[1].strip()) > 20
    assert out.count("\nCartPole-v1\n") == 1
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out


def test_version_is_that_of_the_packages_that_count_without_importing_them():
    code = (
        "import sys; from targetnet.agents.cli.main import main; main(['--version']); "
        "print({'tensorflow', 'gymnasium', 'numpy'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *lines, imported = done.stdout.splitlines()
    names = ("targetnet", "tensorflow", "gymnasium", "numpy", "tensorboard")
    assert lines == [f"{name} {version(name)}" for name in names]
    assert imported == "set()"


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    "renames",
    [["--rename", "torso=t", "head=h"], ["--rename", "torso=t", "--rename", "head=h"]],
    ids=["after one flag", "each after its own"],
)
def test_several_variables_are_renamed_and_several_blocks_loaded(trained, here, capsys, renames):
    """The names in the message are those after both renames."""
    err = refused(capsys, here, "train", "short.toml", "--init-from", str(trained), *renames)
    assert "t/dense_0/w should be absent" in err and "h/q/w should be absent" in err
    back = ["--rename", "torso=t", "t=torso"]
    blocks = ["--blocks", "torso", "--blocks", "head"]
    begin = ["train", "short.toml", "--init-from", str(trained), *back]
    assert main([*begin, *blocks, "--run", "both"]) == 0
    capsys.readouterr()
    err = refused(capsys, here, *begin, "--blocks", "torso", "hed")
    assert "no block 'hed'" in err and "did you mean 'head'" in err


@pytest.mark.parametrize("arguments", [[], ["--help"], ["train", "--help"], ["eval", "--help"]])
def test_help_exits_with_code_0(capsys, arguments):
    """So does the command alone, which shows it."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code in (0, None)
    assert "--" in capsys.readouterr().out


# In a process of its own.

WITHOUT_TENSORFLOW = """
import contextlib, sys
from targetnet.agents.cli.main import _COMMANDS, main
from targetnet.agents.config.files import load_config, shipped_configs
for arguments in (["--help"], ["train", "--help"], ["configs"], ["train", "cartpol"], ["trian"],
                  ["train", "cartpole", "--set", "sync_period=0"], ["eval", "nothing"]):
    with contextlib.suppress(SystemExit):
        main(arguments)
    assert "tensorflow" not in sys.modules, arguments
print("none")
"""


@pytest.mark.parametrize("name", _COMMANDS)
def test_the_help_lists_a_command_with_the_docstring_of_its_class(name):
    """After it comes an example; no option has None for its default."""
    command = _COMMANDS[name]
    kind = getattr(import_module(command.module), command.name)
    summary, _, example = kind.__doc__.partition("\n\n")
    assert summary == command.summary
    words = example.strip().removeprefix("Example: targetnet ").split()
    assert words[0] == name and not isinstance(_parse(words), _ImportPlaceholder)


@pytest.mark.thorough
def test_help_and_refusals_do_not_import_tensorflow():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TENSORFLOW], capture_output=True, text=True
    )
    assert done.stdout.endswith("none\n"), done.stderr


@pytest.mark.slow  # in the default run a Ctrl-C in one is
def test_a_mistake_in_a_process_of_its_own_is_one_line_too(here):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "targetnet.agents.cli",
            "train",
            "short.toml",
            "--set",
            "env_id=CartPol-v1",
        ],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("targetnet: ") and done.stderr.count("\n") == 1
    assert [path.name for path in here.iterdir()] == ["short.toml"]


@pytest.mark.thorough
def test_ctrl_c_stops_with_code_130_and_weights_that_eval_can_use(here, capsys):
    command = [sys.executable, "-m", "targetnet.agents.cli", "train", "short.toml", "--run", "mine"]
    command += ["--set", "env_steps=100_000_000", "eval_period=500"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here
    )
    give_up = threading.Timer(240, process.kill)
    give_up.start()
    try:
        progress = next(line for line in process.stdout if line.startswith("env step"))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    finally:
        give_up.cancel()
        process.kill()
    assert process.returncode == 130, (progress, out, err)
    assert err.count("\n") <= 1 and "Traceback" not in err
    assert "weights saved" in out
    assert not (here / "mine" / "result.json").exists()
    assert main(["eval", "mine", "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 2


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["train", "cartpole", "--set"], "--set"),
        (["train", "cartpole", "--set", "seed=1", "--set"], "--set"),
        (["train", "cartpole", "--log-to"], "--log-to"),
        (["train", "cartpole", "--init-from", "x", "--blocks"], "--blocks"),
        (["train", "cartpole", "--init-from", "x", "--rename"], "--rename"),
        (["resume", "x", "--set"], "--set"),
        (["board", "x", "--allow-host"], "--allow-host"),
    ],
    ids=" ".join,
)
def test_an_option_without_its_words_is_no_option_that_does_nothing(words, option, capsys):
    """As before a variable of the shell that is empty: --blocks would load all of them."""
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"targetnet: {option} wants ")


def test_an_option_that_is_repeated_adds_up():
    assert _log_to([("mlflow",), ("wandb", "trackio")]) == ['log_to=["mlflow", "wandb", "trackio"]']
