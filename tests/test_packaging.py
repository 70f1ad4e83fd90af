"""What an ordinary install of the wheel brings."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rl_core.control.commands import ACTIONS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel, built from this tree and unpacked where nothing else is."""
    directory = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = directory.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(directory / "site")
    return directory / "site"


def run(installed: Path, *arguments: str) -> str:
    """`targetnet ARGUMENTS` from the unpacked wheel, not from the clone."""
    code = f"import sys; sys.path.insert(0, {str(installed)!r}); import agents.cli.main as c; "
    code += "assert c.__file__.startswith(sys.path[0]); sys.exit(c.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, *arguments],
        cwd=installed,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


HELPS = """
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
import agents.cli.main as cli
said = {}
for name in sys.argv[2:]:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        cli.main([name, "--help"])
    said[name] = out.getvalue()
print(json.dumps(said))
"""


def helps(installed: Path, commands: list[str]) -> dict[str, str]:
    """What each command prints of itself, in one process."""
    command = [sys.executable, "-I", "-c", HELPS, str(installed), *commands]
    done = subprocess.run(command, cwd=installed, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_wheel_has_every_room_and_none_of_the_clone_is_needed(installed):
    # By its files: what it lacks, an editable install would give the command from the clone.
    for room in ("agents", "configs", "envs", "rl_core", "targetnet"):
        assert (installed / room / "__init__.py").exists(), room


def test_the_shipped_configs_come_with_the_wheel(installed):
    listed = run(installed, "configs")
    for config in (ROOT / "configs").glob("*.toml"):
        assert config.stem in listed
        assert (installed / "configs" / config.name).exists()


def test_a_page_that_a_help_text_names_is_in_the_wheel(installed):
    shown = run(installed, "--help")
    commands = re.findall(r"^│ +• (\w+)", shown, re.MULTILINE)
    assert {"train", "do", "set"} <= {*commands}
    helped = helps(installed, commands)
    for command in commands:
        words = " ".join(helped[command].replace("│", " ").split())
        pages = re.findall(r"docs/[\w./-]*\w", words)
        assert [page for page in pages if not (installed / page).exists()] == [], command


def test_the_help_of_do_explains_each_action(installed):
    words = " ".join(run(installed, "do", "--help").replace("│", " ").split())
    for action, meaning in ACTIONS.items():
        assert f"{action}: {' '.join(meaning.split())[:30]}" in words


def test_the_wheel_declares_the_command_and_nothing_of_the_tests(installed):
    (entry_points,) = installed.glob("targetnet-*.dist-info/entry_points.txt")
    assert "targetnet = agents.cli.main:main" in entry_points.read_text()
    assert not (installed / "tests").exists()


def test_the_steer_tab_comes_with_its_page(installed):
    (entry_points,) = installed.glob("targetnet-*.dist-info/entry_points.txt")
    assert "targetnet_steer = rl_core.board.steer.entry:SteerLoader" in entry_points.read_text()
    static = ROOT / "rl_core" / "board" / "steer" / "static"
    names = {path.name for path in static.iterdir()}
    assert {"index.js", "style.css"} <= names
    assert {
        p.name for p in (installed / "rl_core" / "board" / "steer" / "static").iterdir()
    } == names
