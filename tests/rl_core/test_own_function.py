"""From where code that a config names is imported, and by whom."""

import sys

import pytest

from targetnet.rl_core.errors import ConfigError
from targetnet.rl_core.own_function import code_directory, imported, in_command


@pytest.fixture
def path(tmp_path, monkeypatch):
    """An empty directory to be in; modules and the path of before come back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    yield tmp_path
    for name, module in [*sys.modules.items()]:
        if str(tmp_path) in str(getattr(module, "__path__", getattr(module, "__file__", ""))):
            del sys.modules[name]


def module(directory, name, text="def f(): return 7\n"):
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.py").write_text(text)
    return f"{name}:f"


def test_a_program_has_a_path_of_its_own(path):
    name, before = module(path, "mine_a"), [*sys.path]
    with pytest.raises(ConfigError, match="No module named 'mine_a'"):
        imported("network", name)
    assert sys.path == before and code_directory() is None


def test_a_command_finds_a_named_module_in_the_current_directory_and_keeps_it_last(path):
    name, before, said = module(path, "mine_b"), [*sys.path], []
    module(path, "later")
    with in_command("", said.append):
        assert imported("network", name)() == 7
        assert imported("network", name)() == 7
    assert sys.path == [*before, ""]
    assert said == [f"network 'mine_b:f' imports {path / 'mine_b.py'}"]
    import later  # the user's code imports later too

    assert later.f() == 7


def test_a_command_may_have_its_code_elsewhere(path):
    name, said = module(path / "home", "mine_c"), []
    with in_command(str(path / "home"), said.append):
        assert code_directory() == str(path / "home")
        assert imported("controller", name)() == 7
    assert said == [f"controller 'mine_c:f' imports {path / 'home/mine_c.py'}"]


@pytest.mark.parametrize("name", ["json:loads", "numpy:zeros", "targetnet.envs.atari:quiet_ale"])
def test_a_module_that_is_elsewhere_does_not_bring_the_current_directory(name, path):
    module(path, name.partition(":")[0].partition(".")[0], "raise SystemExit\n")
    before, said = [*sys.path], []
    with in_command("", said.append):
        assert callable(imported("network", name))
    assert sys.path == before and said == []


def test_a_module_that_is_nowhere_does_not_bring_the_current_directory(path):
    module(path, "other")
    before = [*sys.path]
    with in_command("", print), pytest.raises(ConfigError, match="No module named 'mine_d'"):
        imported("network", "mine_d:f")
    assert sys.path == before


def test_a_package_without_a_file_may_have_a_part_here(path, monkeypatch):
    (path / "elsewhere/parts").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(path / "elsewhere")])
    module(path / "parts", "mine")
    with in_command("", lambda line: None):
        assert imported("network", "parts.mine:f")() == 7


@pytest.mark.parametrize("name", [":f", ".mine:f", "a\0b:f", "__main__:f", "mine..x:f"])
def test_what_is_no_name_of_a_module_is_refused(name, path):
    with in_command("", print), pytest.raises(ConfigError, match="cannot be imported"):
        imported("network", name)
