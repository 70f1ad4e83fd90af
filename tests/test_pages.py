"""Every fenced block of README and docs is run, or stands in a list here that says why it is not.

    ```python   a script: twice in the same place, with nothing on standard error; a recipe of
                from_tf1.md begins with that page's first block and prints what its comments say
    ```toml     a config
    ```json     an entry of an assistant's configuration: its command is parsed
    ```         commands, after `$` if their output follows, else each line; the commands of a
                page are run in order, in one place, and what they print is compared with the page

Numbers may differ, everything else may not; two digests that are the same on the page are the same.
"""

import itertools
import json
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from targetnet.agents.cli.main import _COMMANDS, _parse, main
from targetnet.agents.config.files import config_name, read_config
from targetnet.agents.config.members import load_members
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.pbt import PbtKeys
from targetnet.agents.experiments.compare.plan import ComparisonPlan, EnvPart, Section, load_plan
from targetnet.rl_core.control.files import ControlFiles, is_alive
from targetnet.rl_core.control.population import is_population
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.errors import RunDirError

ROOT = Path(__file__).parents[1]
PAGES = {path.name: path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]}
MAKEFILE = (ROOT / "Makefile").read_text()

NOT_RUN = {
    r"make (train|test|\.venv/\.ready)": "sets up an environment and downloads TensorFlow",
    r"source \.venv/bin/activate": "is of the shell that a user types in",
    r"targetnet results .*": "trains for hours; tests/agents/experiments run it on small configs",
    r"targetnet sweep .*": "trains for minutes; tests/agents/experiments have small children",
    r"targetnet compare .*": "trains for minutes; tests/agents/experiments have small children",
    r"targetnet train sweeps/.*": "trains the winner of a sweep that is not run",
    r"python -m tests\.benchmarks\.performance .*": "measures for minutes, beside peers",
    r"python -m tests\.benchmarks\.wall_clock.*": "measures for hours, beside peers",
    r"python docs/plot_.*": "trains for minutes",
    r"python docs/atari/.*": "tests/agents/experiments/results/test_atari_page.py makes the page",
    r"python docs/study/.*": "test_study.py runs one, the other trains",
    r"targetnet board --host 0\.0\.0\.0 .*": "opens a port to other machines",
    r"tensorboard .* --bind_all .*": "opens a port to other machines",
}
# Pages whose commands are run in one place, one page after the other.
SESSIONS = [
    ("README.md",),
    ("own_network.md",),
    ("resume_and_replay.md",),
    ("steer_a_run.md",),
    ("own_env.md", "use_the_policy.md"),
    ("populations.md",),
    ("controllers.md",),
    ("data.md",),
]
SLOW = [*SESSIONS[1:6], ("data.md",)]
IN_SESSIONS = [page for session in SESSIONS for page in session]
# Files that are there before: the page, the language and the number of the block of its language.
FILES = {
    "nets.py": ("README.md", "python", 1),
    "towers.py": ("own_network.md", "python", 0),
    "my.toml": ("family.md", "toml", 0),
    "own.py": ("own_network.md", "python", 1),
    "own.toml": ("own_network.md", "toml", 0),
    "mine.py": ("controllers.md", "python", 0),
    "corridors.py": ("own_env.md", "python", 0),
    "corridor.toml": ("own_env.md", "toml", 0),
}
OTHER_LINES = {
    "targetnet log runs/cartpole-plain-1": "the page's run was also steered in the browser"
}
# So that a run of a page takes seconds; it lasts until it is ended.
SMALL = [
    "hidden=[8]", "batch_size=8", "learn_start=50", "learn_period=4", "updates_per_learn=1",
    "xla=false", "checkpoint_seconds=1", "eval_period=1000000000",
    "eval_episodes=1", "final_eval_episodes=2",
]  # fmt: skip
ENDLESS = "env_steps=1000000000"


class Block(NamedTuple):
    page: str
    language: str
    text: str

    def commands(self):
        """(command, lines printed), in order; without `$` nothing is said of what is printed."""
        lines = self.text.splitlines()
        if not any(line.startswith("$ ") for line in lines):
            return [(line.partition(" #")[0].rstrip(), []) for line in lines]
        commands = []
        for line in lines:
            if line.startswith("$ "):
                commands.append((line[2:].partition(" #")[0].rstrip(), []))
            else:
                commands[-1][1].append(line)
        return commands


def blocks_of(page):
    found = re.findall(r"^```(.*)\n((?s:.*?))^```$", PAGES[page].read_text(), re.MULTILINE)
    return [Block(page, language, text) for language, text in found]


def why_not_run(command):
    return next((why for pattern, why in NOT_RUN.items() if re.fullmatch(pattern, command)), None)


def commands_of(page):
    return [c for block in blocks_of(page) if not block.language for c in block.commands()]


def title(block):
    return f"{block.page}: {block.text.splitlines()[0]}"


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
BEGINNING, *RECIPES = blocks_of("from_tf1.md")
SCRIPTS = [
    b
    for b in BLOCKS
    if b.language == "python" and "print(" in b.text and "runs/" not in b.text
    if b not in RECIPES
]
MODULES = {
    name: [b for b in blocks_of(page) if b.language == kind][number]
    for name, (page, kind, number) in FILES.items()
}
# Of Stable-Baselines3 and SBX, and of CleanRL.
OF_PEERS = [
    {"learning_rate", "train_freq", "target_update_interval", "net_arch"},
    {"learning_rate", "train_frequency", "target_network_frequency", "hidden"},
    {"net_arch", "exploration_initial_eps", "n_envs"},  # where it has its defaults
]
SETTINGS = [b for b in BLOCKS if b.language == "toml" and PAGES[b.page].parent.name == "results"]
CONFIGS = [b for b in BLOCKS if b.language == "toml" and b not in SETTINGS]
SHELL = [(page, command) for page in PAGES for command, _ in commands_of(page)]


# Every block is of a kind that is run.


def test_there_are_blocks_of_every_kind():
    assert len(SCRIPTS) == 5 and len(CONFIGS) == 15 and len(SHELL) > 40
    assert {"env_id" in tomllib.loads(block.text) for block in SETTINGS} == {True, False}


@pytest.mark.parametrize("block", BLOCKS, ids=title)
def test_a_block_is_of_a_language_that_is_run(block):
    # A console is of several machines, and not run.
    languages = "", "python", "toml", "json", "console"
    assert block.language in languages, "say here how it is run"
    if block.language == "python":
        run = [*SCRIPTS, *MODULES.values(), BEGINNING, *RECIPES]
        assert block in run or block.page in IN_SESSIONS


def test_every_page_with_commands_that_are_run_is_in_a_session():
    to_run = {page for page, command in SHELL if why_not_run(command) is None}
    assert sorted(to_run) == sorted(IN_SESSIONS)


@pytest.mark.parametrize("pattern", NOT_RUN)
def test_what_is_not_run_is_on_a_page_and_could_be(pattern):
    commands = [command for _, command in SHELL if re.fullmatch(pattern, command)]
    assert commands
    for command in commands:
        program, *words = shlex.split(command)
        if program == "targetnet":
            assert _parse(words)
        elif program == "make":
            assert f"\n{words[0].replace('.venv', '$(VENV)')}: " in MAKEFILE
        elif words[0].endswith(".py"):
            assert (ROOT / words[0]).exists()
        elif program == "python":
            assert find_spec(words[1])


# Scripts and configs.


@pytest.mark.cases(0)
@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "script",
    [
        # Those that train take ten times as long.
        pytest.param(s, id=title(s), marks=pytest.mark.slow if "DqnConfig" in s.text else ())
        for s in SCRIPTS
    ],
)
def test_a_script_runs_again_in_the_same_place_and_logs_nothing(
    script, times, tmp_path, monkeypatch
):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    (tmp_path / "script.py").write_text(script.text)
    run = f"import runpy; [runpy.run_path('script.py', {{}}, '__main__') for _ in range({times})]"
    done = subprocess.run([sys.executable, "-c", run], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall(r"\d", done.stdout)) >= times * script.text.count("print(")


@pytest.mark.cases(0)
@pytest.mark.parametrize("trains", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_recipe_prints_what_stands_beside_it_and_logs_nothing(trains, tmp_path, monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    recipes = [r.text for r in RECIPES if ("DqnConfig" in r.text) == trains]
    for i, recipe in enumerate(recipes):
        (tmp_path / f"{i}.py").write_text(BEGINNING.text + recipe)
    run = f"import runpy; [runpy.run_path(f'{{i}}.py') for i in range({len(recipes)})]"
    done = subprocess.run([sys.executable, "-c", run], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    said = [re.findall(r"print\(.*\)  # (.*)$", recipe, re.MULTILINE) for recipe in recipes]
    assert all(said) and done.stdout.splitlines() == list(itertools.chain(*said))


@pytest.mark.parametrize("block", CONFIGS, ids=lambda b: b.page)
def test_a_config_is_one(block, tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(block.text)
    if "[[members]]" in block.text:
        assert len(load_members(path).configs) == block.text.count("[[members]]")
    elif "baseline" in block.text:
        assert load_plan(path).plan.baseline in block.text
    else:
        assert read_config(path) != DqnConfig()


@pytest.mark.thorough
def test_the_readmes_network_learns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text(MODULES["nets.py"].text)
    changes = ["network=nets:net", "env_steps=200", *SMALL]
    assert main(["train", "cartpole-plain", "--set", *changes]) == 0


@pytest.mark.parametrize("block", SETTINGS, ids=lambda b: b.page)
def test_the_settings_of_a_row_are_a_config_or_those_of_a_peer(block, tmp_path):
    (tmp_path / "own.toml").write_text(block.text)
    settings = tomllib.loads(block.text)
    if "env_id" in settings:
        assert read_config(tmp_path / "own.toml") != DqnConfig()
    else:
        assert any(of_peer <= settings.keys() for of_peer in OF_PEERS)


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "json"], ids=lambda b: b.page)
def test_the_command_in_an_assistants_configuration_is_one(block):
    (server,) = json.loads(block.text)["mcpServers"].values()
    assert Path(server["command"]).name == "targetnet" and _parse(server["args"])


# Commands.


@pytest.mark.thorough
@pytest.mark.parametrize(
    "pages",
    [
        pytest.param(s, id=" ".join(s), marks=pytest.mark.slow if s in SLOW else ())
        for s in SESSIONS
    ],
)
def test_the_commands_of_a_page_print_what_it_says(pages, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name, block in MODULES.items():
        (tmp_path / name).write_text(block.text)
    with Session(capsys) as session:
        for block in (block for page in pages for block in blocks_of(page)):
            if block.language == "python" and block not in [*SCRIPTS, *MODULES.values()]:
                session.script(block.text)
            for command, printed in block.commands() if not block.language else []:
                if why_not_run(command) is None:
                    session.command(command, printed)
    for name in MODULES:
        sys.modules.pop(name.removesuffix(".py"), None)


class Session:
    """Runs the commands of pages: runs that train in the background, all others in this process."""

    def __init__(self, capsys):
        self._capsys = capsys
        self._runs = []
        self._digests = {}  # on the page -> here

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._runs:
            process.kill()
            process.wait()

    def command(self, command, printed):
        code, got = self._ran(command)
        expected = [] if command in OTHER_LINES else printed
        assert code == (2 if "targetnet: " in "".join(printed) else 0), f"{command}: {got}"
        found = re.fullmatch(like(expected), got) if expected else re.match("", got)
        assert found, f"$ {command}\n{got}--- is not as on the page:\n" + "\n".join(expected)
        digests = re.findall(DIGEST, "\n".join(expected))
        for on_page, here in zip(digests, found.groups(), strict=True):
            assert self._digests.setdefault(on_page, here) == here

    def script(self, text):
        for _ in range(2):
            done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, "") and done.stdout

    def _ran(self, command):
        words = shlex.split(command)
        if "$(" in command:
            targetnet = f'targetnet() {{ {sys.executable} -m targetnet.agents.cli "$@"; }}\n'
            done = subprocess.run(
                ["bash", "-c", targetnet + command], capture_output=True, text=True
            )
            self._wait_for_the_end_of_one(command)
            return done.returncode, done.stdout + done.stderr
        if words[1] == "train" and "--init-from" not in words:
            return 0, self._begin(words)
        if words[1] == "replay" and is_alive(ControlFiles(_first_of(Path(words[2])))):
            # On the page it has ended by itself.
            self._runs[-1].send_signal(signal.SIGINT)
            self._runs.pop().wait(60)
        more = {
            "train": [*SMALL, "env_steps=200"],
            # More than can have been made since its last heartbeat.
            "resume": [f"env_steps={self._steps(words) + 20_000}"],
        }
        code = main([*words[1:], *(["--set", *more[words[1]]] if words[1] in more else [])])
        self._wait_for_the_end_of_one(command)
        return code, "".join(self._capsys.readouterr())

    def _begin(self, words):
        """Starts a run and returns what it has printed once it learns."""
        run = Path(
            words[words.index("--run") + 1]
            if "--run" in words
            else f"runs/{config_name(words[2])}-1"
        )
        output = Path(f"{run.name}.txt")
        # What the page sets itself, it sets for a reason: exchanges want evaluations before them.
        named = {word.partition("=")[0] for word in words if "=" in word}
        small = [setting for setting in SMALL if setting.partition("=")[0] not in named]
        command = [
            sys.executable,
            "-m",
            "targetnet.agents.cli",
            *words[1:],
            "--set",
            *small,
            ENDLESS,
        ]
        with output.open("w") as file:
            self._runs.append(subprocess.Popen(command, stdout=file, stderr=file))
        deadline = time.monotonic() + 200
        while self._updates(run) < 20:
            assert self._runs[-1].poll() is None and time.monotonic() < deadline, output.read_text()
            time.sleep(0.1)
        return output.read_text()

    @staticmethod
    def _updates(run):
        try:
            return read_state(ControlFiles(_first_of(run)))[0].update
        except RunDirError:
            return 0

    @staticmethod
    def _steps(words):
        files = ControlFiles(_first_of(Path(words[2])))
        return read_state(files)[0].env_step if words[1] == "resume" else 0

    def _wait_for_the_end_of_one(self, command):
        if command.startswith("kill") or command.endswith(" stop"):
            self._runs.pop().wait(60)


def _first_of(run):
    """The first member, of a population."""
    return run / "m00" if is_population(run) else run


DIGEST, NUMBER = r"\b[0-9a-f]{64}\b", r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"


def like(lines):
    """A pattern of what is printed with other numbers; `...` is any lines, digests are groups."""
    patterns = []
    for line in lines:
        parts = re.split(f"({DIGEST}|{NUMBER})", line)
        kinds = ["([0-9a-f]{64})" if re.fullmatch(DIGEST, n) else NUMBER for n in parts[1::2]]
        words = [re.escape(words) for words in parts[::2]]
        whole = "".join(a + b for a, b in zip(words, [*kinds, ""], strict=True))
        patterns.append(r"(?:.*\n)*" if line == "..." else whole + r"\s*\n")
    return "".join(patterns)


def test_numbers_may_differ_and_words_may_not():
    page = [
        "sync_period 106 -> 50 at update 11,088 (env step 23,187)",
        "...",
        "identical " + "a" * 64,
    ]
    got = "sync_period 1 -> 2e-05 at update 3 (env step 4)\nmore\nidentical " + "b" * 64 + "\n"
    assert re.fullmatch(like(page), got)[1] == "b" * 64
    assert not re.fullmatch(like(page), got.replace("update", "step"))
    assert not re.fullmatch(like(page), got + "more\n")


# Commands within a sentence or a table.


WITHIN = [
    (page, words)
    for page, path in PAGES.items()
    for words in re.findall(r"`([^`\n]+)`", re.sub(r"(?ms)^```.*?^```$", "", path.read_text()))
]


@pytest.mark.parametrize(
    ("page", "command"), [(p, c) for p, c in WITHIN if c.startswith("targetnet ")]
)
def test_a_command_in_a_sentence_is_one(page, command):
    given = {"name=value": "tau=1", "K": "2", "ACTION": "sync", "FORMAT": "onnx"}
    words = [given.get(w, w) for w in shlex.split(re.sub(r"\.\.\.|[][]", " ", command))[1:]]
    bare = words[1:2] == [] or words[1].startswith("-")
    if bare and words[0] not in ("configs", "board", "ls"):  # of which run, the sentence says
        words.insert(1, "RUN")
    assert _parse(words)


@pytest.mark.parametrize("row", re.findall(r"\| `targetnet .*", PAGES["commands.md"].read_text()))
def test_every_flag_in_the_table_of_commands_is_one(row):
    command = row.split()[2].rstrip("`")
    kind = _COMMANDS[command]
    fields = getattr(import_module(kind.module), kind.name).__dataclass_fields__
    flags = re.findall(r"--([a-z-]+)", row)
    assert {flag.replace("-", "_") for flag in flags} <= fields.keys()


@pytest.mark.parametrize(("page", "target"), [(p, c) for p, c in WITHIN if c.startswith("make ")])
def test_a_make_target_in_a_sentence_is_one(page, target):
    assert f"\n{target.split()[1]}: " in MAKEFILE


@pytest.mark.parametrize(("page", "setting"), [(p, c) for p, c in WITHIN if re.match(r"\w+ = ", c)])
def test_a_setting_in_a_sentence_is_one_of_a_config(page, setting):
    files = DqnConfig, PbtKeys, EnvPart, ComparisonPlan, Section
    known = {"base", *(name for of in files for name in of.model_fields)}
    assert setting.split()[0] in known
