"""Past states and savers for code in the style of TensorFlow 1; a run has its own checkpoints.

`PastStates` is a ring of in-memory copies of a scope. `Saver` reads and writes TensorFlow's own
checkpoint files. `tf.train.Saver` adds operations to the graph, so it must be made before the graph
is finalized. This one adds none: it reads the variables, writes the file in a graph of its own, and
restores by feeding each variable's initializer.
"""

from __future__ import annotations

import contextlib
import glob
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.arguments import path_of, require_whole
from targetnet.rl_core.errors import (
    ArgumentError,
    BoundsError,
    RlCoreError,
    ScopeMismatch,
    did_you_mean,
    in_one_line,
    quoted,
    reason_of,
)
from targetnet.rl_core.files import open_regular
from targetnet.rl_core.graph.scopes import stop_gradient_getter, variables_in
from targetnet.rl_core.graph.sync import copy_vars
from targetnet.rl_core.graph.weights import require_same_kinds

if TYPE_CHECKING:
    from targetnet.rl_core.graph.engine import Engine


class PastStates:
    """A ring of k copies of the scope `source`, as variables under `past/0` ... `past/<k-1>`.

    This example evaluates one input with the present weights and with those before an update:

        with engine.building():
            with tf.variable_scope("model") as model:
                now = network(x)
            past = PastStates(engine, model.name, k=1)
            with past.scope(0):
                before = network(x)
            ...
        engine.start()
        past.snapshot()
        update()
        engine.run([before, now], {x: ...})  # at t-1 and at t

    Build it after the source's variables, inside the outer scope of the copies. A snapshot
    assigns each variable inside the graph; no value passes through Python.

    Args:
      engine: the engine whose graph is being built and whose session runs the copies.
      source: full path of the scope to copy.
      k: number of copies; after k snapshots, each new one overwrites the oldest.
      name: name of the ring's scope.

    Raises:
      ArgumentError, BoundsError: k is no whole number, or less than 1.
      ScopeMismatch: `source` has no variables.
    """

    def __init__(self, engine: Engine, source: str, *, k: int, name: str = "past") -> None:
        require_whole("k", k, 1)
        self.k = k
        self._engine = engine
        self._slots: list[tf.VariableScope] = []
        kept = variables_in(source)
        with tf.variable_scope(name) as ring:
            for i in range(k):
                with tf.variable_scope(str(i)) as slot:
                    for path, variable in kept.items():
                        zeros = tf.zeros(variable.shape, variable.dtype.base_dtype)
                        tf.get_variable(path, initializer=zeros)
                self._slots.append(slot)
            # A variable, so that a checkpoint saves the count together with the copies.
            self._taken = tf.get_variable(
                "taken", [], tf.int64, tf.zeros_initializer(), trainable=False
            )
        self.name = ring.name
        with tf.control_dependencies([self._taken.assign_add(1, read_value=False)]):
            self._counted = tf.no_op()
        self._save = [copy_vars(source, slot.name) for slot in self._slots]
        self._load = [copy_vars(slot.name, source) for slot in self._slots]
        self._callables: dict[tf.Operation, Callable[[], None]] = {}

    @contextlib.contextmanager
    def scope(self, i: int) -> Iterator[tf.VariableScope]:
        """Opens a scope whose layers read copy i; no gradient reaches the copy.

        Raises:
          BoundsError: there is no copy i.
        """
        if i not in range(self.k):
            raise BoundsError(
                f"a ring of {self.k} has the slots 0 to {self.k - 1}, got {quoted(i)}"
            )
        getter = stop_gradient_getter
        with tf.variable_scope(self._slots[i], reuse=True, custom_getter=getter) as scope:
            yield scope

    def snapshot(self) -> int:
        """Copies the source into the oldest slot; returns the number of that slot."""
        slot = int(self._engine.session.run(self._taken)) % self.k
        self._run(self._save[slot])
        self._run(self._counted)
        return slot

    def restore(self, i: int) -> None:
        """Copies slot i back into the source.

        Raises:
          BoundsError: slot i does not exist or holds no snapshot yet.
        """
        taken = int(self._engine.session.run(self._taken))
        if i not in range(min(taken, self.k)):
            raise BoundsError(
                f"no snapshot in slot {quoted(i)}: {taken} taken into a ring of {self.k}"
            )
        self._run(self._load[i])

    def _run(self, op: tf.Operation) -> None:
        if op not in self._callables:
            self._callables[op] = self._engine.callable(None, targets=[op])
        self._callables[op]()


# As the `var_list` of `tf.train.Saver`.
SavedVariables = Mapping[str, tf.Variable] | Iterable[tf.Variable] | None


class Saver:
    """Saves and restores variables as `tf.train.Saver` does, without a new operation.

        saver = engine.saver()
        saver.save("saved/model")
        saver.restore("saved/model")

    Args:
      engine: the engine whose variables are saved.
      variables: name in the file -> variable, or variables under their own names; None: all
        variables of the graph.
    """

    def __init__(self, engine: Engine, variables: SavedVariables = None) -> None:
        self._engine = engine
        self._chosen = None if variables is None else _named(variables)

    def save(self, path: str | Path) -> str:
        """Writes the variables' values; returns the path as text, which is a prefix of two files.

        `tf.train.latest_checkpoint` of their directory, which is made if missing, finds it.

        Raises:
          RlCoreError: the engine was not started, or the files cannot be written.
        """
        prefix, variables = str(path_of("path", path)), self._variables()
        values = dict(zip(variables, self._engine.run([*variables.values()]), strict=True))
        try:
            _write(prefix, values)
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise RlCoreError(f"cannot save variables to {prefix}: {reason_of(error)}") from error
        return prefix

    def restore(self, path: str | Path) -> None:
        """Sets the variables to the values in a file; the file may have others too.

        Raises:
          RlCoreError: the engine was not started, there are no such files, or they are damaged.
          ScopeMismatch: a variable is not in the file, or has another shape or dtype there.
        """
        prefix, variables = str(path_of("path", path)), self._variables()
        values = _read(prefix, variables)
        require_same_kinds(variables, values, f"the wanted ones, in {prefix}")
        for name, variable in variables.items():
            # One at a time: two variables may share the tensor of their first value.
            assign = variable.initializer
            self._engine.run(assign, {assign.inputs[1]: values[name]})

    def _variables(self) -> dict[str, tf.Variable]:
        # Asked for each time, so that a saver made while building has what is built after it.
        every = self._engine.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
        variables = _named(every) if self._chosen is None else self._chosen
        if not variables:
            raise RlCoreError("there are no variables to save or restore")
        return variables


def _named(variables: Any) -> dict[str, tf.Variable]:
    try:
        if isinstance(variables, Mapping):
            return {str(name): v for name, v in variables.items() if v.op}
        return {v.op.name: v for v in variables}
    except (AttributeError, TypeError):
        raise ArgumentError(
            "a saver needs variables, or a dictionary of names in the file and variables, got "
            + quoted(variables)
        ) from None


def _write(prefix: str, values: Mapping[str, np.ndarray]) -> None:
    if any(character in prefix for character in "*?["):
        raise ValueError("TensorFlow takes * ? [ in the path for a pattern")
    folder = Path(prefix).resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = [tf.placeholder(value.dtype, value.shape) for value in values.values()]
        write = tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=[*values],
            shape_and_slices=[""] * len(values),
            tensors=tensors,
        )
        session.run(write, dict(zip(tensors, values.values(), strict=True)))
    _point_to(Path(prefix).name, folder / "checkpoint")


def _point_to(name: str, file: Path) -> None:
    """Writes the file that names a directory's last checkpoint."""
    # TensorFlow's function for it logs that it is deprecated. The name has no directory, so that
    # the whole may be moved.
    quoted = json.dumps(name, ensure_ascii=False)  # as protocol buffers quote in text
    temporary = file.with_name(f"{file.name}.{uuid.uuid4().hex}.tmp")
    temporary.write_text(f"model_checkpoint_path: {quoted}\nall_model_checkpoint_paths: {quoted}\n")
    temporary.replace(file)


def _read(prefix: str, names: Iterable[str]) -> dict[str, np.ndarray]:
    try:
        data = Path(prefix).parent.glob(f"{glob.escape(Path(prefix).name)}.data-*")
        for file in Path(f"{prefix}.index"), *data:
            open_regular(file, follow=True).close()  # TensorFlow would wait for a pipe
        reader = tf.train.load_checkpoint(prefix)
        there = reader.get_variable_to_shape_map()
        values = {name: np.asarray(reader.get_tensor(name)) for name in names if name in there}
    # TensorFlow's reader raises these for damaged files.
    except (OSError, tf.errors.OpError, ValueError, IndexError, RuntimeError) as error:
        raise RlCoreError(f"cannot restore variables from {prefix}: {reason_of(error)}") from error
    for name in names:
        if name not in there:
            raise ScopeMismatch(
                f"{prefix} has no variable {name!r}{did_you_mean(name, there)}; it has "
                f"{in_one_line(', '.join(sorted(there)))}. A dictionary of names in the file "
                "restores variables of other names"
            )
    return values
