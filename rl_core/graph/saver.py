"""Variables in TensorFlow's own checkpoint files, which `tf.train.Saver` and others read and write.

`tf.train.Saver` adds operations to the graph, so it must be made before the graph is finalized.
This one adds none: it reads the variables, writes the file in a graph of its own, and restores by
feeding each variable's initializer.
"""

from __future__ import annotations

import glob
import json
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.arguments import path_of
from targetnet.rl_core.errors import (
    ArgumentError,
    RlCoreError,
    ScopeMismatch,
    did_you_mean,
    in_one_line,
    quoted,
    reason_of,
)
from targetnet.rl_core.graph.weights import require_same_kinds
from targetnet.rl_core.regular_file import open_regular

if TYPE_CHECKING:
    from targetnet.rl_core.graph.engine import Engine

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
