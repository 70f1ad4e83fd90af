"""TensorFlow's API with names that are imported when they are used."""

import importlib.util
import inspect
import subprocess
import sys
from types import ModuleType

import pytest
import tensorflow
from tensorflow.python.util.lazy_loader import KerasLazyLoader

from targetnet.agents.run.process import _Finder

API = "tensorflow._api.v2."


def stand_in(name):
    """What the API's package `name` is replaced by; here it has been imported as usual."""
    parent = sys.modules[name.rpartition(".")[0]]
    spec = _Finder().find_spec(name, parent.__path__)
    return spec and importlib.util.module_from_spec(spec)


def names_of(package):
    """Its public names, without those that TensorFlow puts there from outside."""
    return {
        name: getattr(package, name)
        for name in dir(package)
        if not name.startswith("_") and not isinstance(getattr(package, name), KerasLazyLoader)
    }


def test_every_package_of_the_api_has_the_very_names_that_it_has_when_it_is_imported():
    packages = [name for name in sys.modules if name.startswith(API)]
    compared = 0
    for name in packages:
        one = stand_in(name)
        if one is None:
            continue
        wanted = names_of(sys.modules[name])
        if name.endswith(".app"):
            wanted.pop("flags")  # put there from outside too
        if name.endswith("compat.v1.nn"):
            wanted["rnn_cell"] = sys.modules[f"{name}.rnn_cell"]
        got = names_of(one)
        assert got.keys() == wanted.keys(), name
        # TensorFlow wraps some functions later than the package is imported.
        assert all(inspect.unwrap(got[key]) is inspect.unwrap(wanted[key]) for key in wanted), name
        compared += len(wanted)
    assert compared > 5_000


@pytest.mark.parametrize("name", ["compat", "compat.v1", "compat.v2"])
def test_what_does_more_than_to_import_is_imported_as_it_is(name):
    assert stand_in(API + name) is None


def test_other_packages_are_left_alone():
    assert _Finder().find_spec("tensorflow.python", tensorflow.__path__) is None
    assert _Finder().find_spec("tensorflow", None) is None
    assert stand_in(API + "nowhere") is None


def test_a_name_that_is_not_there_is_an_attribute_error_as_usual():
    with pytest.raises(AttributeError, match=r"module '.*v2.math' has no attribute 'cubed'"):
        stand_in(API + "math").cubed  # noqa: B018


def test_what_is_set_from_outside_counts_more():
    math = stand_in(API + "math")
    math.square = round
    assert math.square is round


USED = """
import gc, sys
from targetnet.agents.run.process import quiet_import
with quiet_import():
    from tensorflow.compat.v1 import nn
assert gc.isenabled() and gc.get_freeze_count() > 100_000
waiting = ["keras.src.optimizers", "tensorflow.python.training.adam", "tensorflow.python.keras"]
assert not {*waiting, "tensorflow.python.distribute.distribute_lib"} & {*sys.modules}
import tensorflow as tf
import tensorflow.compat.v2 as tf2
from tensorflow.python.ops import gen_nn_ops, math_ops
assert tf.nn.relu is tf2.nn.relu is nn.relu is gen_nn_ops.relu
assert tf.math.square is math_ops.square
assert "tensorflow.python.keras" not in sys.modules
print(tf.compat.v1.train.AdamOptimizer(0.5).get_name())
print(*tf.data.Dataset.range(3).as_numpy_iterator())
assert tf.lite.TFLiteConverter and tf.lite.Interpreter and tf.lite.experimental.Analyzer
print(tf.compat.v1.nn.rnn_cell._tfll_submodule, tf.keras.layers.Dense(2).units)
"""


@pytest.mark.thorough
def test_in_a_process_of_its_own_names_are_there_when_they_are_used():
    done = subprocess.run([sys.executable, "-c", USED], capture_output=True, text=True)
    assert done.stdout == "Adam\n0 1 2\n__internal__.legacy.rnn_cell 2\n", done.stderr[-2000:]


def test_a_stand_in_is_a_module_that_looks_for_a_name_once():
    math = stand_in(API + "math")
    assert isinstance(math, ModuleType)
    assert math.__file__ == sys.modules[API + "math"].__file__
    assert "square" not in vars(math)
    assert math.square is vars(math)["square"]
