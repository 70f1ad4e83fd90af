"""Whatever stands on the command line: one short line, exit code 2, nothing left on disk."""

import pytest

from targetnet.agents.cli.main import main

# With PATH where each command takes one.
COMMANDS = [
    "eval PATH", "play PATH", "play . --video PATH", "export PATH out --to frozen",
    "export . PATH --to frozen", "set PATH tau=0.5", "do PATH sync", "status PATH", "log PATH",
    "ls PATH", "digest PATH", "replay PATH", "replay . --to PATH", "resume PATH", "board PATH",
    "train cartpole --run PATH", "train cartpole --run r --init-from PATH",
    "results cartpole --out PATH", "results cartpole --page PATH",
    "results cartpole --peer sb3 --peer-python PATH", "train PATH.toml", "results PATH.toml",
]  # fmt: skip
PATHS = {
    "a name too long": "x" * 5_000,
    "a path too long": "x/" * 5_000 + "y",
    "a part too long": "x" * 300,
    "NUL": "a\0b",
    "a link to itself": "loop",
    "below a link to itself": "loop/run",
    "half a character": "\ud800",
}
VALUES = [
    "set . x", "set . =", "do . \x1b[2J", "eval . --episodes LONG", "eval . --seed LONG",
    "eval . --episodes 9223372036854775808", "eval . --seed 9223372036854775808",
    "train cartpole --seed LONG", "train LONG", "LONG", "--LONG", "set . LONG", "set . LONG=1",
    "do . LONG", "export . out --to LONG", "train cartpole --rename LONG", "\x1b[2J", "train \x1b",
    "train cartpole --set LONG", "train cartpole --set seed=LONG", "results LONG",
    "board --port LONG", "play . --video LONG", "status . --LONG",
]  # fmt: skip


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Runs a command that must be refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TARGETNET_DEBUG", raising=False)
    (tmp_path / "loop").symlink_to("loop")

    def refused(arguments):
        assert main(arguments) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("targetnet: ") and err.endswith("\n")
        assert err[:-1].isprintable() and len(err) <= 900, err
        assert [path.name for path in tmp_path.iterdir()] == ["loop"]

    return refused


@pytest.mark.cases(92)
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_hostile_path_is_refused_by_every_command(refused, command, path):
    refused([word.replace("PATH", path) for word in command.split()])


def test_a_value_that_ends_in_equals_is_no_empty_path(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["set", ".", "tau="]) == 2
    assert "wants a path" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        "train cartpole --run PATH", "results cartpole --out PATH", "results cartpole --rows PATH",
        "status PATH", "ls PATH", "resume PATH", "replay . --to PATH", "digest PATH", "log PATH",
    ],
)  # fmt: skip
def test_an_empty_path_is_no_current_directory(refused, command):
    """As an unset variable of a shell leaves it."""
    refused([word.replace("PATH", "") for word in command.split()])


@pytest.mark.cases(21)
@pytest.mark.parametrize("long", ["9" * 5_000, "x" * 20_000], ids=["digits", "letters"])
@pytest.mark.parametrize("command", VALUES)
def test_a_hostile_value_is_refused_by_every_command(refused, command, long):
    refused([word.replace("LONG", long) for word in command.split(" ")])
