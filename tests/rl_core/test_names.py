"""The flat names of `rl_core`: all there, known to type checkers, and loaded only when used."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import rl_core

ROOT = Path(__file__).parents[2]
PACKAGES = ["rl_core", "agents"]


def for_type_checkers(package):
    """name -> module, as imported under `if TYPE_CHECKING:`."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text())
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {
        alias.asname or alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def in_a_new_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("name", rl_core.__all__)
def test_every_flat_name_is_the_one_of_its_module(name):
    module = for_type_checkers("rl_core")[name]
    assert getattr(rl_core, name) is getattr(import_module(module), name)


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_and_the_name_table_know_the_same_names(package):
    found = import_module(package)
    table = {
        name: f"{package}.{module}"
        for module, names in found._NAMES_OF.items()
        for name in names.split()
    }
    assert for_type_checkers(package) == table
    assert found.__all__ == sorted(table)


def test_no_name_is_given_by_two_modules():
    names = [name for names in rl_core._NAMES_OF.values() for name in names.split()]
    assert len(names) == len(set(names))


def test_dir_gives_every_name():
    assert dir(rl_core) == rl_core.__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'rl_core' has no attribute 'NoSuchThing'"):
        _ = rl_core.NoSuchThing
    with pytest.raises(ImportError, match="NoSuchThing"):
        from rl_core import NoSuchThing  # noqa: F401


def test_importing_the_package_alone_imports_no_tensorflow():
    code = "import sys, rl_core; print('tensorflow' in sys.modules, len(rl_core.__all__) > 30)"
    assert in_a_new_process(code) == ["False", "True"]


def test_a_name_that_needs_no_tensorflow_imports_none_and_one_that_does_does():
    assert in_a_new_process(
        "import sys\n"
        "from rl_core import EventWriter, Hyperparameters, Knob, Linear, ScopeMismatch\n"
        "print('tensorflow' in sys.modules)\n"
        "from rl_core import Engine\n"
        "print('tensorflow' in sys.modules)"
    ) == ["False", "True"]
