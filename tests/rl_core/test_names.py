"""The flat names of `rl_core`: all there, known to type checkers, and loaded only when used."""

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from targetnet import agents, rl_core
from targetnet.rl_core import lazy

ROOT = Path(__file__).parents[2]
PACKAGES = ["rl_core", "agents"]


def for_type_checkers(package):
    """Public name -> (module, name there), as imported under `if TYPE_CHECKING:`."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text())
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {
        alias.asname or alias.name: (node.module, alias.name)
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
    module, inside = for_type_checkers("rl_core")[name]
    assert getattr(rl_core, name) is getattr(import_module(module), inside)


def test_a_name_may_be_public_under_another_one():
    from targetnet.agents.run.repeat import repeat

    assert agents.replay is repeat and "repeat" not in agents.__all__


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_and_the_name_table_know_the_same_names(package):
    found = import_module(f"targetnet.{package}")
    table = {
        name.rpartition(":")[2]: (f"targetnet.{package}.{module}", name.partition(":")[0])
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
    with pytest.raises(
        AttributeError, match=r"'targetnet\.rl_core' has no attribute 'NoSuchThing'"
    ):
        _ = rl_core.NoSuchThing
    with pytest.raises(ImportError, match="NoSuchThing"):
        from targetnet.rl_core import NoSuchThing  # noqa: F401


def test_importing_the_package_alone_imports_no_tensorflow():
    code = "import sys; from targetnet import rl_core as r\n"
    code += "print('tensorflow' in sys.modules, len(r.__all__) > 30)"
    assert in_a_new_process(code) == ["False", "True"]


def test_a_name_that_needs_no_tensorflow_imports_none():
    assert in_a_new_process(
        "import sys\n"
        "from targetnet.rl_core import EventWriter, Hyperparameters, Knob, Linear, ScopeMismatch\n"
        "print('tensorflow' in sys.modules)\n"
    ) == ["False"]


@pytest.mark.slow
def test_a_name_that_needs_no_tensorflow_imports_none_and_one_that_does_does():
    assert in_a_new_process(
        "import sys\n"
        "from targetnet.rl_core import EventWriter, Hyperparameters, Knob, Linear, ScopeMismatch\n"
        "print('tensorflow' in sys.modules)\n"
        "from targetnet.rl_core import Engine\n"
        "print('tensorflow' in sys.modules)"
    ) == ["False", "True"]


# Importing TensorFlow quietly; tests/test_pages.py has the empty standard error of every snippet.

NOISE = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
    "I0000 00:00:1795343304.458230    7262 cudart_stub.cc:31] Could not find cuda drivers\n"
    "W0000 00:00:1795343304.458231    7262 some.cc:1] slow\n"
)


def written_within(capfd, monkeypatch, level, *texts):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)
    with lazy.without_log_lines():
        for text in texts:
            os.write(2, text.encode())
    return capfd.readouterr().err


def test_only_log_lines_of_infos_and_warnings_are_dropped(capfd, monkeypatch):
    said = written_within(
        capfd, monkeypatch, "3", "before\n", NOISE, "E0000 00:00: failed\n", "no end"
    )
    assert said == "before\nE0000 00:00: failed\nno end"


@pytest.mark.parametrize("level", ["0", "1", "2", ""])
def test_who_chose_a_log_level_sees_all_of_it(capfd, monkeypatch, level):
    assert written_within(capfd, monkeypatch, level, NOISE) == NOISE


def test_standard_error_is_brought_back_after_an_exception_and_within_another_import(capfd):
    with pytest.raises(KeyError), lazy.without_log_lines(), lazy.without_log_lines():
        os.write(2, b"kept\n")
        raise KeyError
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "kept\nafter\n"


def test_a_process_without_standard_error_imports_too():
    code = "import os; os.close(2); from targetnet.rl_core import Linear; print(Linear.__name__)"
    assert in_a_new_process(code) == ["Linear"]


@pytest.mark.slow  # in the default run it is asked of the importing alone
def test_a_log_level_that_the_user_has_set_is_left_and_shown():
    code = (
        "import os; from targetnet.rl_core import Engine; print(os.environ['TF_CPP_MIN_LOG_LEVEL'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "0"},
    )  # fmt: skip
    assert done.stdout == "0\n" and "cpu_feature_guard" in done.stderr


TENSORFLOW_FIRST = """
import sys
import tensorflow.compat.v1 as tf
sys.stderr.write("imported\\n")
from targetnet.rl_core import Engine
engine = Engine()
with engine.building():
    double = 2.0 * tf.placeholder(tf.float32, [])
engine.start()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "said"),
    [({}, False), pytest.param({"TF_CPP_MIN_LOG_LEVEL": "0"}, True, marks=pytest.mark.slow)],
)
def test_where_tensorflow_was_imported_first_its_later_lines_are_hidden_too(level, said):
    """Those of its import were written before us."""
    environ = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", TENSORFLOW_FIRST], capture_output=True, text=True, cwd=ROOT,
        env=environ | level, check=True,
    )  # fmt: skip
    later = done.stderr.partition("imported\n")[2]
    assert bool(later) == said
