"""What an ordinary install of the wheel brings."""

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from targetnet.rl_core.control.commands import ACTIONS

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
    code = f"import sys; sys.path.insert(0, {str(installed)!r})\n"
    code += "import targetnet.agents.cli.main as c; "
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
import targetnet.agents.cli.main as cli
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


def test_one_version_stands_everywhere():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {version} - " in (ROOT / "CHANGELOG.md").read_text()


def test_the_wheel_has_every_room_and_none_of_the_clone_is_needed(installed):
    # By its files: what it lacks, an editable install would give the command from the clone.
    for room in ("", "agents", "configs", "envs", "rl_core"):
        assert (installed / "targetnet" / room / "__init__.py").exists(), room


def test_the_wheel_holds_one_package(installed):
    """So no other package, such as openai-agents with its `agents`, can overwrite a part of it."""
    names = {path.name for path in installed.iterdir() if path.suffix != ".dist-info"}
    assert names == {"targetnet"}
    assert not [path for path in installed.rglob("*") if path.is_symlink()]


@pytest.mark.slow
def test_a_wheel_of_the_source_distribution_is_the_same(installed, tmp_path):
    """A source distribution has no links, so the wheel must not depend on them."""
    build = [sys.executable, "-m", "hatchling", "build", "-d", tmp_path]
    subprocess.run([*build, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    (source,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as file:
        file.extractall(tmp_path, filter="data")
    folder = tmp_path / source.name.removesuffix(".tar.gz")
    subprocess.run([*build, "-t", "wheel"], cwd=folder, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    of_tree = {str(p.relative_to(installed)) for p in installed.rglob("*") if p.is_file()}
    assert {*zipfile.ZipFile(wheel).namelist()} == of_tree


def pip(python: Path, *arguments: object) -> None:
    command = [sys.executable, "-m", "pip", "--python", python, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if "No matching distribution" in done.stderr:
        pytest.skip("there is no package index to install from")
    assert done.returncode == 0, done.stderr


def environment(path: Path) -> tuple[Path, Path]:
    """The Python of a new environment, and where its packages are."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
    (packages,) = path.glob("lib/python*/site-packages")
    return path / "bin/python", packages


@pytest.mark.slow
def test_the_tests_of_envs_pass_with_the_oldest_gymnasium_that_is_allowed(tmp_path):
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (oldest,) = (of.removeprefix("gymnasium>=") for of in wanted if of.startswith("gymnasium>="))
    python, packages = environment(tmp_path / "env")
    # What this environment has comes after it.
    (packages / "others.pth").write_text("\n".join(path for path in sys.path if path))
    pip(python, "install", "--no-deps", f"gymnasium=={oldest}.*")
    code = "import gymnasium; print(gymnasium.__version__)"
    said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"{oldest}.")
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", "tests/envs"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("ours_first", [True, False])
def test_openai_agents_may_be_installed_and_removed_beside_it(installed, tmp_path, ours_first):
    python, packages = environment(tmp_path / "env")
    (wheel,) = installed.parent.glob("*.whl")
    order = (wheel, "openai-agents") if ours_first else ("openai-agents", wheel)
    for package in order:
        pip(python, "install", "--no-deps", package)
    theirs = packages / "agents/__init__.py"
    assert "targetnet" not in theirs.read_text()
    alone = [python, "-c", "import targetnet; print(targetnet.agents.__file__)"]
    said = subprocess.run(alone, capture_output=True, text=True, cwd=tmp_path, check=True).stdout
    assert said.strip() == str(packages / "targetnet/agents/__init__.py")
    pip(python, "uninstall", "--yes", "targetnet")
    assert theirs.exists() and not (packages / "targetnet").exists()
    pip(python, "install", "--no-deps", wheel)
    pip(python, "uninstall", "--yes", "openai-agents")
    subprocess.run(alone, capture_output=True, cwd=tmp_path, check=True)


def test_the_shipped_configs_come_with_the_wheel(installed):
    listed = run(installed, "configs")
    for config in (ROOT / "configs").glob("*.toml"):
        assert config.stem in listed
        assert (installed / "targetnet/configs" / config.name).exists()


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
    assert "targetnet = targetnet.agents.cli.main:main" in entry_points.read_text()
    assert not (installed / "tests").exists()


def test_the_steer_tab_comes_with_its_page(installed):
    (entry_points,) = installed.glob("targetnet-*.dist-info/entry_points.txt")
    assert (
        "targetnet_steer = targetnet.rl_core.board.steer.entry:SteerLoader"
        in entry_points.read_text()
    )
    static = ROOT / "rl_core" / "board" / "steer" / "static"
    names = {path.name for path in static.iterdir()}
    assert {"index.js", "style.css"} <= names
    assert {
        p.name
        for p in (installed / "targetnet" / "rl_core" / "board" / "steer" / "static").iterdir()
    } == names
