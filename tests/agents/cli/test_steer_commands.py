"""The commands about runs, as a user types them: what they print, and their exit codes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from targetnet.agents.cli.main import main
from targetnet.rl_core.control.files import ControlFiles, RunLock, is_alive
from targetnet.rl_core.control.log import ControlLog, Entry, read_log
from targetnet.rl_core.control.state import read_state

ROOT = Path(__file__).parents[3]
# Its epsilon has no corner before its end: nothing but what is asked for comes into the log.
LONG = """
env_id = "tests.agents.slow_cartpole:Slow/CartPole-v1"
env_steps = 100_000_000
hidden = [8]
batch_size = 8
replay_capacity = 2_000
learn_start = 50
learn_period = 4
sync_period = 500
learning_rate = 1e-3
log_period = 500
xla = false
epsilon = { schedule = "linear", start = 1.0, end = 0.05, steps = 100_000_000 }
"""
ENDED = """
env_steps = 300
hidden = [8]
batch_size = 8
replay_capacity = 500
learn_start = 50
final_eval_episodes = 1
xla = false
"""


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One run that is alive, `long`, and one that has ended, `ended`."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "long.toml").write_text(LONG)
    (folder / "ended.toml").write_text(ENDED)
    command = [sys.executable, "-m", "targetnet.agents.cli", "train"]
    long = [*command, str(folder / "long.toml"), "--run", str(folder / "long")]
    # Its env is in these tests.
    root = Path(__file__).parents[3]
    with subprocess.Popen(long, stdout=subprocess.DEVNULL, cwd=root) as process:
        assert main(["train", str(folder / "ended.toml"), "--run", str(folder / "ended")]) == 0
        files = ControlFiles(folder / "long")
        while not (files.state.exists() and read_state(files)[0].update > 50):
            assert process.poll() is None
            time.sleep(0.05)
        yield folder
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


@pytest.fixture
def long(folder):
    return folder / "long"


@pytest.fixture
def ended(folder):
    return folder / "ended"


def ran(capsys, *arguments):
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def published(run, name, value):
    """Waits until the run's state has it: it is written right after the log."""
    deadline = time.monotonic() + 20
    while {v.name: v.value for v in read_state(ControlFiles(run))[0].values}[name] != value:
        assert time.monotonic() < deadline
        time.sleep(0.01)


WHERE = r" at update [\d,]+ \(env step [\d,]+\)\n"


@pytest.mark.thorough
def test_set_prints_the_change_and_where_it_landed(capsys, long):
    ran(capsys, "set", long, "sync_period=500")
    code, out, err = ran(capsys, "set", long, "sync_period=50")
    assert (code, err) == (0, "")
    assert re.fullmatch("sync_period 500 -> 50" + WHERE, out)
    published(long, "sync_period", 50)


@pytest.mark.thorough
def test_set_says_that_a_sync_is_no_full_copy(capsys, long):
    """By the period alone, nobody would see that syncs a hundred times rarer move it by a tenth."""
    told = "each sync moves the target by tau = 0.25; for full copies set tau=1\n"
    try:
        ran(capsys, "set", long, "tau=0.25")
        published(long, "tau", 0.25)
        assert ran(capsys, "set", long, "sync_period=60")[1].endswith(told)
        assert told not in ran(capsys, "set", long, "sync_period=70", "tau=0.25")[1]
    finally:
        ran(capsys, "set", long, "tau=auto")
        published(long, "tau", 1.0)
    assert "tau" not in ran(capsys, "set", long, "sync_period=80")[1]


def test_set_takes_several_changes(capsys, long):
    code, out, _ = ran(capsys, "set", long, "tau=0.5", "exempt=torso", "learning_rate=1e-4")
    assert code == 0
    said = [line.split(" at ")[0] for line in out.splitlines()]
    assert said[1:] == ["exempt none -> torso", "learning_rate 0.001 -> 0.0001"]
    code, out, _ = ran(capsys, "set", long, "tau=auto", "exempt=auto", "learning_rate=auto")
    assert code == 0 and "exempt torso -> none (auto)" in out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("sync_perod=5", "did you mean 'sync_period'"),
        ("target_update_interval=5", "is sync_period here, counted in updates"),
        ("batch_size=5", "--set batch_size="),
        ("sync_period=0", "a whole number of updates >= 1, got 0"),
        ("sync_period=2.5", "got 2.5"),
        ("tau=often", "got 'often'"),
        ("exempt=tors", "did you mean 'torso'"),
        ("exempt=torso,head", "nothing would be trained"),
        ("epsilon=1.1", "in [0, 1]"),
    ],
)
def test_a_refusal_is_one_line_with_exit_code_2_and_is_logged(capsys, long, change, said):
    before = len(read_log(long / "control/log.jsonl"))
    code, out, err = ran(capsys, "set", long, change)
    assert code == 2 and out == "" and err.count("\n") == 1 and said in err
    (entry,) = read_log(long / "control/log.jsonl")[before:]
    assert not entry.taken and entry.who == "cli"


def test_what_was_taken_is_printed_beside_what_was_refused(capsys, long):
    code, out, err = ran(capsys, "set", long, "tau=0.25", "sync_period=0")
    assert code == 2 and out.startswith("tau ") and "sync_period" in err
    ran(capsys, "set", long, "tau=auto")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["set", "RUN"], "name"),
        (["set", "RUN", "sync_period"], "name=value"),
        (["set", "RUN", "=5"], "name=value"),
        (["set", "RUN", "tau=nan"], "finite"),
        (["set", "RUN", "tau=1e999"], "finite"),
        (["set", "RUN", "tau=0.5", "--timeout", "0"], "--timeout"),
        (["do", "RUN", "pauze"], "did you mean 'pause'"),
        (["do", "RUN", "pause", "3"], "pause takes nothing after it, got 3"),
        (["do", "RUN", "rewind", "0"], "rewind takes a whole number of snapshots >= 1, got 0"),
        (["do", "RUN", "reset"], "reset takes the name of a block"),
        (["do", "RUN", "perturb", "1.5"], "a factor above 0 and below 1, then perhaps a block"),
        (["do", "RUN", "recycle", "0.1", "torso", "head"], "got '0.1 torso head'"),
        (["set", "NONE", "tau=0.5"], "cannot be steered"),
        (["do", "NONE", "pause"], "cannot be steered"),
        (["status", "NONE"], "cannot be steered"),
        (["log", "NONE"], "not the directory of a run"),
        (["ls", "NONE"], "no such directory"),
        (["digest", "NONE"], "not a run directory"),
        (["replay", "NONE"], "not a run directory"),
        (["replay", "RUN"], "still running"),
        (["digest", "RUN"], "written when the run's training ends"),
    ],
)
def test_a_mistake_is_one_line_and_sends_nothing(capsys, long, arguments, said):
    names = {"RUN": str(long), "NONE": str(long.parent / "none")}
    before = len(read_log(long / "control/log.jsonl"))
    code, _, err = ran(capsys, *[names.get(a, a) for a in arguments])
    assert code == 2 and err.startswith("targetnet: ") and err.count("\n") == 1
    assert said in err and not (long.parent / "none").exists()
    assert read_log(long / "control/log.jsonl")[before:] == []


def test_a_run_that_is_over_is_said_to_be_with_its_last_heartbeat(capsys, ended):
    for arguments in (["set", ended, "tau=0.5"], ["do", ended, "stop"],
                      ["set", ended, "tau=0.5", "--no-wait"]):  # fmt: skip
        code, out, err = ran(capsys, *arguments)
        assert code == 2 and out == ""
        assert re.search(r"is not running: finished at env step 300, last heartbeat \d+ s ago", err)
    assert list((ended / "control/inbox").iterdir()) == []


def test_no_wait_returns_at_once_and_the_change_comes(capsys, long):
    before = len(read_log(long / "control/log.jsonl"))
    assert ran(capsys, "set", long, "tau=0.75", "--no-wait") == (0, "", "")
    while len(read_log(long / "control/log.jsonl")) == before:
        time.sleep(0.01)
    assert ran(capsys, "set", long, "tau=auto")[1].startswith("tau 0.75 -> 1 (auto)")


def test_do_prints_where_it_was_done(capsys, long):
    assert re.fullmatch("pause" + WHERE, ran(capsys, "do", long, "pause")[1])
    steps = [read_state(ControlFiles(long))[0].env_step for _ in range(2) if not time.sleep(0.3)]
    assert steps[0] == steps[1]
    code, _, err = ran(capsys, "do", long, "pause")
    assert code == 2 and "the run is paused" in err
    assert "paused" in ran(capsys, "status", long)[1]
    assert re.fullmatch("sync" + WHERE, ran(capsys, "do", long, "sync")[1])
    assert re.fullmatch("resume" + WHERE, ran(capsys, "do", long, "resume")[1])


def test_actions_on_the_weights_take_words_and_the_run_names_the_nearest_block(capsys, long):
    for words in (["reset", "head"], ["perturb", "0.8"], ["perturb", "0.9", "torso"]):
        assert re.fullmatch(" ".join(words) + WHERE, ran(capsys, "do", long, *words)[1])
    said = ran(capsys, "do", long, "recycle", "0.2")[1]
    assert re.fullmatch(r"recycle 0.2: \d of 8 units" + WHERE, said)
    code, out, err = ran(capsys, "do", long, "reset", "haed")
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert "refused reset: no block 'haed' (torso, head, all); did you mean 'head'?" in err
    code, _, err = ran(capsys, "do", long, "recycle", "head")
    assert code == 2 and "block 'head' has no hidden layer of rectified units" in err


def test_status_shows_step_speed_live_values_and_their_source(capsys, long):
    ran(capsys, "set", long, "sync_period=77")
    published(long, "sync_period", 77)
    code, out, _ = ran(capsys, "status", long)
    assert code == 0
    for part in ("running", "CartPole-v1", "of 100,000,000", "env steps/s", "left", "target age",
                 "return", "last heartbeat", "live value", "unit", "bounds"):  # fmt: skip
        assert part in out, part
    row = next(line for line in out.splitlines() if "sync_period " in line)
    assert row.split() == ["sync_period", "77", "updates", ">=", "1", "override"]
    assert "epsilon = auto: linear from 1 to 0.05 over env steps 0 to 100,000,000" in out


def test_status_cuts_no_name_of_a_live_value(capsys, ended, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    out = ran(capsys, "status", ended)[1]
    assert "updates_per_learn " in out and "learning_rate " in out
    assert max(map(len, out.splitlines())) <= 60


def test_status_as_json_is_the_state(capsys, long):
    code, out, _ = ran(capsys, "status", long, "--json")
    state = json.loads(out)
    assert code == 0 and state["alive"] is True and state["status"] == "running"
    assert {v["name"] for v in state["values"]} >= {"sync_period", "epsilon", "exempt"}


def test_the_pid_is_that_of_the_process_that_runs_it(capsys, long, ended):
    code, out, err = ran(capsys, "status", long, "--pid")
    assert (code, err) == (0, "")
    assert str(long).encode() in Path(f"/proc/{int(out)}/cmdline").read_bytes().split(b"\0")
    code, out, err = ran(capsys, "status", ended, "--pid")
    assert (code, out) == (2, "") and "is not running, so it has no process" in err


@pytest.mark.parametrize(
    ("field", "said"),
    [("pid", "is starting and has not said which process it is"), ("host", "runs on elsewhere")],
)
def test_the_pid_of_another_process_is_never_given(capsys, ended, tmp_path, field, said):
    """After a kill the number may be another process', while a resumed run has the lock."""
    other = {"pid": os.getppid(), "host": "elsewhere"}
    state = json.loads((ended / "control/state.json").read_text()) | {field: other[field]}
    files = ControlFiles(tmp_path)
    files.make()
    files.state.write_text(json.dumps(state))
    lock = RunLock(files)
    code, out, err = ran(capsys, "status", tmp_path, "--pid")
    lock.release()
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1


@pytest.mark.thorough
def test_status_follows_a_run_until_its_end(capsys, ended, long):
    assert ran(capsys, "status", ended, "--follow")[0] == 0
    command = [
        sys.executable,
        "-m",
        "targetnet.agents.cli",
        "status",
        str(long),
        "--follow",
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        first, *later = (json.loads(process.stdout.readline())["env_step"] for _ in range(5))
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert first < later[-1]


def test_log_shows_everything_that_was_asked(capsys, long):
    ran(capsys, "set", long, "sync_period=88")
    ran(capsys, "set", long, "sync_period=0")
    code, out, _ = ran(capsys, "log", long)
    last = out.splitlines()[-2:]
    assert code == 0 and "cli" in last[0] and "-> 88 at update" in last[0]
    assert "refused sync_period = 0" in last[1]
    as_json = [json.loads(line) for line in ran(capsys, "log", long, "--json")[1].splitlines()]
    assert as_json[-2]["new"] == 88 and as_json[-1]["taken"] is False


def test_log_follows(long, capsys):
    command = [sys.executable, "-m", "targetnet.agents.cli", "log", str(long), "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()  # it is up
        ran(capsys, "set", long, "sync_period=99")
        # Until it ends, if it ends by itself.
        assert any("-> 99" in line for line in iter(process.stdout.readline, ""))
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


def test_ls_shows_all_runs_those_alive_first(capsys, folder):
    code, out, _ = ran(capsys, "ls", folder)
    lines = out.splitlines()
    assert code == 0 and len(lines) == 3
    assert "long" in lines[1] and "running" in lines[1]
    assert "ended" in lines[2] and "finished" in lines[2] and "300 / 300" in lines[2]
    as_json = [json.loads(line) for line in ran(capsys, "ls", folder, "--json")[1].splitlines()]
    assert [run["alive"] for run in as_json] == [True, False]


@pytest.mark.thorough
def test_ls_cuts_no_path(folder, tmp_path, monkeypatch):
    """In a pipe lines are as long as they are, in a terminal a path takes several of them."""
    deep = tmp_path / ("a-long-name-" * 9) / "runs"
    deep.parent.mkdir()
    deep.symlink_to(folder)
    command = [sys.executable, "-m", "targetnet.agents.cli", "ls", f"{deep}/"]
    unset = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    for environ in (unset, *(unset | {"COLUMNS": columns} for columns in ("0", "00", "", "²"))):
        piped = subprocess.run(command, capture_output=True, text=True, env=environ).stdout
        assert f"{deep}/ended " in piped and "finished" in piped
    narrow = subprocess.run(command, capture_output=True, text=True, env=unset | {"COLUMNS": "80"})
    lines = narrow.stdout.splitlines()
    assert max(map(len, lines)) <= 80 and "…" not in "".join(line.split()[0] for line in lines[1:])


def test_ls_of_an_empty_directory_says_how_to_start(capsys, tmp_path):
    assert "targetnet train cartpole" in ran(capsys, "ls", tmp_path)[1]


def device(path):
    path.symlink_to("/dev/zero")


def loop(path):
    path.symlink_to(path.name)


DAMAGE = {
    "cut": lambda path: path.write_bytes(b"{"),
    "no text": lambda path: path.write_bytes(b"\xff"),
    "of no time": lambda path: path.write_text('{"time": -Infinity}'),
    "deep": lambda path: path.write_text("[" * 100_000),
    "a pipe": os.mkfifo,
    "a device": device,
    "a link to itself": loop,
    "a directory": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("name", ["state.json", "lock"])
def test_ls_lists_the_damaged_with_what_is_wrong_and_hides_no_other(capsys, ended, tmp_path, name):
    shutil.copytree(ended / "control", tmp_path / "good" / "control")
    told = [*DAMAGE][4 if name == "lock" else 0 :]  # a lock's content is nobody's business
    for run in told:
        shutil.copytree(ended / "control", tmp_path / run / "control")
        (tmp_path / run / "control" / name).unlink()
        DAMAGE[run](tmp_path / run / "control" / name)
    code, out, _ = ran(capsys, "ls", tmp_path)
    lines = out.splitlines()
    assert code == 0 and f"{tmp_path}/good " in lines[1] and "finished" in lines[1]
    assert sum("  damaged  " in line for line in lines) == len(told)
    for run in told:
        assert any(line.startswith("damaged: ") and f"/{run}/" in line for line in lines), run
    as_json = [json.loads(line) for line in ran(capsys, "ls", tmp_path, "--json")[1].splitlines()]
    assert as_json[0]["status"] == "finished"
    assert {Path(run["run"]).name for run in as_json[1:]} == {*told}
    assert all(run.keys() == {"run", "problem"} and name in run["problem"] for run in as_json[1:])


def test_ls_tells_of_a_directory_that_is_closed_to_it(capsys, ended, tmp_path, monkeypatch):
    shutil.copytree(ended / "control", tmp_path / "good" / "control")
    for name in ("listed", "searched"):
        (tmp_path / "closed" / name / "inner").mkdir(parents=True)
    # Root may read everything, so the system is asked as another user.
    (tmp_path / "closed").chmod(0o700)
    tmp_path.chmod(0o755)
    scandir, lstat = os.scandir, Path.lstat

    def no(path):
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as asked:
        asked.setattr(os, "scandir", lambda p: no(p) if p.name == "listed" else scandir(p))
        asked.setattr(Path, "lstat", lambda p: no(p) if "searched" in p.parts else lstat(p))
        code, out, _ = ran(capsys, "ls", tmp_path)
    lines = out.splitlines()
    assert code == 0 and "good" in lines[1] and "finished" in lines[1]
    problems = [line for line in lines if line.startswith("damaged: cannot read")]
    assert ["listed" in problems[0], "searched" in problems[1]] == [True, True]


# All is imported before: the interpreter's own files may be closed to another user too.
AS_NOBODY = """
import contextlib, io, json, os, sys
from targetnet.agents.cli.main import main

def ran(arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()

for arguments in ("ls .", "ls none", "status good", "log good", "digest good"):
    ran(arguments.split())
os.seteuid(65534)
print(json.dumps([ran(arguments) for arguments in json.loads(sys.argv[1])]))
"""


def test_what_another_user_has_closed_is_told_in_one_line(ended, tmp_path):
    """As another user, in a process of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.chmod(0o755)
        for run, closed_path in [
            ("good", None),
            ("state", "control/state.json"),
            ("lock", "control/lock"),
            ("log", "control/log.jsonl"),
            ("config", "config.toml"),
            ("control", "control"),
            ("whole", "."),
        ]:
            shutil.copytree(ended, folder / run)
            if closed_path:
                (folder / run / closed_path).chmod(0)
        refused = [
            ("status", "state"), ("status", "lock"), ("status", "control"), ("status", "whole"),
            ("log", "whole"), ("log", "control"), ("log", "log"), ("digest", "whole"),
        ]  # fmt: skip
        commands = [["ls", "."], *map(list, refused)]
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, json.dumps(commands)],
            capture_output=True, text=True, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        listing, *answers = json.loads(done.stdout)
        assert listing[0] == 0 and listing[2] == ""
        lines = listing[1].splitlines()
        assert sum(line.startswith("damaged: ") for line in lines) == 4, lines
        for run in ("good", "log", "config"):
            assert any(
                line.strip().startswith(f"{run} ") and "finished" in line for line in lines
            ), run
        for command, (code, _, err) in zip(refused, answers, strict=True):
            assert (code, err.count("\n"), err[:11]) == (2, 1, "targetnet: "), (command, err)


def test_what_a_run_says_reaches_no_terminal_as_it_is(capsys, ended, tmp_path):
    run = tmp_path / os.fsdecode(b"r\xff\x1b[2J[red]")
    shutil.copytree(ended / "control", run / "control")
    state = json.loads((run / "control" / "state.json").read_text())
    state |= {"env_id": "\x1b[2J[/red]", "note": "\x1b]0;x\x07" * 1_000, "mean_return": 1e300}
    state["values"][0] |= {"name": "[/bold]\x1b[2J", "configured": "\x1b", "source": "override"}
    (run / "control" / "state.json").write_text(json.dumps(state))
    text = "\x1b[2J[red]"
    entry = Entry(
        id="1", asked=1.0, time=1.0, who=text, kind="set", name=text, value=text, taken=False,
        reason=text, tick=1, env_step=1, update=1,
    )  # fmt: skip
    log = ControlLog(run / "control" / "log.jsonl")
    log.append([entry])
    log.close()
    for arguments, times in ((["ls", tmp_path], 1), (["status", run], 1), (["log", run], 4)):
        code, out, err = ran(capsys, *arguments)
        assert (code, err) == (0, "")
        assert out.replace("\n", "").isprintable() and out.count("\\x1b[2J") >= times


def test_digest_and_replay_end_with_the_same_word(capsys, ended):
    code, out, _ = ran(capsys, "digest", ended)
    digest = out.split()[-1]
    assert code == 0 and re.fullmatch(r"[0-9a-f]{64}", digest)
    code, out, _ = ran(capsys, "replay", ended)
    assert code == 0 and out.splitlines()[-1] == f"identical {digest}"


def test_a_digest_of_two_threads_says_so(capsys, ended, tmp_path):
    copy = shutil.copytree(ended, tmp_path / "copy")
    config = (copy / "config.toml").read_text().split("\n", 2)[2]  # as of 0.1, without a seal
    (copy / "config.toml").write_text(config.replace("threads = 1", "threads = 2"))
    assert ", 2 threads: " in ran(capsys, "digest", copy)[1]
    assert "thread" not in ran(capsys, "digest", ended)[1]


def test_a_replay_that_differs_says_where_with_exit_code_1(capsys, ended, tmp_path):
    copy = shutil.copytree(ended, tmp_path / "copy")
    config = (copy / "config.toml").read_text()
    # As of version 0.1, without a seal and a version, or the change would be noticed.
    unsealed = config.split("\n", 2)[2].replace("seed = 0", "seed = 1")
    (copy / "config.toml").write_text(unsealed)
    code, out, _ = ran(capsys, "replay", copy)
    assert code == 1 and out.splitlines()[-1] == "different: the first difference is at env step 1"
    assert is_alive(ControlFiles(copy)) is False


WITHOUT_TENSORFLOW = """
import contextlib, sys
from targetnet.agents.cli.main import main
run = sys.argv[1]
for arguments in (["set", run, "tau=0.5"], ["do", run, "sync"], ["status", run], ["log", run],
                  ["ls", run], ["digest", run], ["--help"]):
    with contextlib.suppress(SystemExit):
        main(arguments)
    found = {"tensorflow", "gymnasium"} & set(sys.modules)
    assert not found, (arguments, found)
print("none")
"""


@pytest.mark.thorough
def test_no_tensorflow_is_imported(ended):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TENSORFLOW, str(ended)],
        capture_output=True, text=True, env=os.environ | {"TARGETNET_DEBUG": "0"},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["none"], done.stderr
