"""Export of a policy to files that do not need this project.

Each format has the input `observation` [batch, ...], or an input `observation_PART` for each part
of an observation of several, and the outputs `action` [batch] int64 and `q` [batch, A] float32; the
batch size is free. Actions of a MultiDiscrete or MultiBinary space are [batch, ...] with its shape.
If the env has action masks, `action_mask` [batch, A] bool is a second input. A policy with a
recurrent layer has the input `state` [batch, S] float32, zeros where an episode begins, and the
output `next_state`, which goes in with the next observation.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.network import of_first
from targetnet.agents.policy.load import NEXT_STATE, SCOPE, STATE, PolicyTensors, build_policy
from targetnet.agents.policy.trained_policy import TrainedPolicy, trained
from targetnet.agents.saved.directory import RunDir, new_directory
from targetnet.agents.saved.spaces import envs_of_policy
from targetnet.rl_core.arguments import path_of
from targetnet.rl_core.checkpoint.weights_file import weights_bytes
from targetnet.rl_core.errors import RlCoreError, did_you_mean, in_one_line, quoted
from targetnet.rl_core.graph.scopes import variables_in
from targetnet.rl_core.graph.weights import require_same_kinds
from targetnet.rl_core.networks import STATELESS

MASK = "action_mask"
_OUTPUTS = {
    "action": "int64 [batch]",
    "q": "float32 [batch, actions]",
    NEXT_STATE: "float32 [batch, state]",
}


class ExportError(RlCoreError, OSError):
    """Failure of an export: unknown format, bad directory, or missing library."""


def export(
    run: Path | str, to: str, out: Path | str, *, averaged: bool = False, best: bool = False
) -> Path:
    """Writes a run's greedy policy into the new directory `out` and returns it.

    Args:
      run: a run directory.
      to: one of FORMATS.
      out: a directory that does not exist or is empty.
      averaged, best: choose the weights, as for `load_policy`.

    Raises:
      ExportError: there is no such format, `out` is not empty, or a library is missing.
      RunDirError: there is no such run, or it has no such weights.
    """
    if to not in FORMATS:
        known = ", ".join(FORMATS)
        raise ExportError(
            f"cannot export to {quoted(to)}: the formats are {known}{did_you_mean(to, FORMATS)}"
        )
    directory, out = RunDir.open(path_of("run", run)), path_of("out", out)
    learned = trained(directory, averaged=averaged, best=best)
    with new_directory(out, ExportError) as making:
        if to == "safetensors":
            (making / "policy.safetensors").write_bytes(weights_bytes(learned.weights))
            return out
        config = directory.config()
        policy = _built(config, learned, directory)
        with contextlib.closing(policy.session), _no_deprecations():
            FORMATS[to](policy, making)
            describe = {
                "input": {n: t.shape.as_list()[1:] for n, t in policy.inputs.items()},
                "dtype": {n: t.dtype.name for n, t in policy.inputs.items()},
                "outputs": {n: _OUTPUTS[n] for n in policy.outputs} | {"action": _shape_of(policy)},
                **({"branches": policy.branches} if policy.branches else {}),
                "env_id": config.env_id,
                **({"live": learned.live} if learned.live else {}),
            }
            (making / "policy.json").write_text(json.dumps(describe, indent=2) + "\n")
    return out


class _ExportGraph(NamedTuple):
    """A policy in a graph that is not finalized, so that savers can be added."""

    session: tf.Session
    tensors: PolicyTensors
    branches: tuple[int, ...]  # as `Envs` has them

    @property
    def inputs(self) -> dict[str, tf.Tensor]:
        of = self.tensors
        masks = {} if of.legal is None else {MASK: of.legal}
        return of.observations | masks | ({} if of.state is STATELESS else {STATE: of.state})

    @property
    def outputs(self) -> dict[str, tf.Tensor]:
        of = self.tensors
        memory = {} if of.next_state is STATELESS else {NEXT_STATE: of.next_state}
        return {"action": of.action, "q": of.q} | memory


def _built(config: DqnConfig, learned: TrainedPolicy, run: RunDir) -> _ExportGraph:
    envs = envs_of_policy(run, config)
    with tf.Graph().as_default() as graph:
        tensors = build_policy(config, envs, learned.live, packed=False)
        variables = variables_in(SCOPE)
        weights = of_first(config, learned.weights)
        require_same_kinds(variables, weights, f"of {run.path}")
        session = tf.Session(graph=graph)
        for name, variable in variables.items():
            initial = variable.initializer.inputs[1]
            session.run(variable.initializer, {initial: weights[name]})
    return _ExportGraph(session, tensors, envs.branches)


def _shape_of(policy: _ExportGraph) -> str:
    """Returns dtype and shape of the output `action` in words."""
    return f"int64 [{', '.join(map(str, ('batch', *policy.tensors.action.shape.as_list()[1:])))}]"


def _savedmodel(policy: _ExportGraph, out: Path) -> None:
    with policy.session.graph.as_default():
        tf.saved_model.simple_save(
            policy.session, str(out / "model"), policy.inputs, policy.outputs
        )


def _frozen(policy: _ExportGraph, out: Path) -> None:
    (out / "policy.pb").write_bytes(_frozen_graph(policy).SerializeToString())


def _tflite(policy: _ExportGraph, out: Path) -> None:
    with _scratch(out) as scratch, _converting("tflite"):
        _savedmodel(policy, scratch)
        converter = tf2.lite.TFLiteConverter.from_saved_model(str(scratch / "model"))
        (out / "policy.tflite").write_bytes(converter.convert())


def _onnx(policy: _ExportGraph, out: Path) -> None:
    try:
        import tf2onnx
    except ImportError as error:
        raise ExportError(
            f"export to onnx needs {error.name}: pip install 'targetnet[export]'"
        ) from None
    with _converting("onnx"):
        model, _ = tf2onnx.convert.from_graph_def(
            _frozen_graph(policy),
            input_names=[f"{name}:0" for name in policy.inputs],
            output_names=[f"{name}:0" for name in policy.outputs],
        )
    _rename(model.graph, {f"{name}:0": name for name in (*policy.inputs, *policy.outputs)})
    (out / "policy.onnx").write_bytes(model.SerializeToString())


FORMATS: dict[str, Callable[[_ExportGraph, Path], None]] = {
    "savedmodel": _savedmodel,
    "frozen": _frozen,
    "tflite": _tflite,
    "onnx": _onnx,
    "safetensors": lambda policy, out: None,
}


def _frozen_graph(policy: _ExportGraph) -> tf.GraphDef:
    """Returns the graph with every variable replaced by a constant."""
    return tf.graph_util.convert_variables_to_constants(
        policy.session, policy.session.graph.as_graph_def(), list(policy.outputs)
    )


def _rename(graph: object, names: dict[str, str]) -> None:
    """Renames tensors of an ONNX graph, to drop TensorFlow's suffix `:0`."""
    for value in (*graph.input, *graph.output):  # type: ignore[attr-defined]
        value.name = names.get(value.name, value.name)
    for node in graph.node:  # type: ignore[attr-defined]
        for field in (node.input, node.output):
            field[:] = [names.get(name, name) for name in field]


@contextlib.contextmanager
def _converting(name: str) -> Iterator[None]:
    """Raises what a converter raises as one line: a network of one's own may ask too much of it."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise ExportError(
            f"the network cannot be converted to {name} ({in_one_line(error)}); savedmodel has "
            "every operation"
        ) from error


@contextlib.contextmanager
def _no_deprecations() -> Iterator[None]:
    """Silences TensorFlow's warnings that graph functions are deprecated."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel(max(level, logging.ERROR))
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _scratch(out: Path) -> Iterator[Path]:
    scratch = out / ".scratch"
    scratch.mkdir()
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch)
