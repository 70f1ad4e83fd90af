"""A graph for people: what some operations need, under tidy names, small enough for a log.

TensorFlow numbers a scope that is entered again (`online_1`), and leaves operations that were made
outside of all scopes beside the scopes. Here each such operation is in the scope that it reads from
or that reads it, and a scope's later visits are inside of it. The graph that runs is not touched.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import tensorflow.compat.v1 as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2

MOST_BYTES = 1 << 20
INPUTS, REST = "inputs", "other"
_AGAIN = re.compile(r"(.+)_(\d+)$")
_LARGEST_VALUE = 64  # bytes of a constant


def picture(wanted: Iterable[tf.Operation], most_bytes: int = MOST_BYTES) -> bytes:
    """Returns a serialized GraphDef of `wanted` and everything that they need.

    Bodies of functions, large constants and most attributes are left out.

    Args:
      wanted: operations of one graph.
      most_bytes: a larger picture is left out: it is empty then.
    """
    operations = _needed(wanted)
    names = tidy_names({op.name: [*_sources(op)] for op in operations}, _fed(operations))
    graph = graph_pb2.GraphDef()
    for op in operations:
        graph.node.append(_node(op, names))
    graph.versions.producer = tf.version.GRAPH_DEF_VERSION
    drawn = graph.SerializeToString()
    return drawn if len(drawn) <= most_bytes else b""


def tidy_names(reads: Mapping[str, Iterable[str]], fed: Iterable[str] = ()) -> dict[str, str]:
    """Returns the name that each operation has in the picture.

    Args:
      reads: name of an operation -> names of those that it reads from.
      fed: names of the operations that are inputs.
    """
    fed = set(fed)
    # A scope's name is no operation's: `add` with its constant `add/y` is one operation, and so is
    # `Read/ReadVariableOp`. Kinds of operations begin with a capital, our scopes do not.
    tops = {name.partition("/")[0] for name in reads}
    loose = {top for top in tops if top in reads or top[0].isupper()}
    scopes = {top: _scope(top, tops - loose) for top in tops - loose}
    scopes |= dict.fromkeys(loose & fed, INPUTS)
    _settle(loose - fed, scopes, reads)
    taken = {f"{scopes[top]}/{rest[0]}" for top, *rest in map(_parts, reads) if top not in loose}
    for top in sorted(loose):
        scopes[top] += f"/{top}"
        while scopes[top] in taken:
            scopes[top] += "_"
        taken.add(scopes[top])
    return {
        name: "/".join([scopes[top], *rest])
        for name, (top, *rest) in zip(reads, map(_parts, reads), strict=True)
    }


def _parts(name: str) -> list[str]:
    return name.split("/")


def _scope(top: str, tops: set[str]) -> str:
    again = _AGAIN.match(top)
    return f"{again[1]}/call_{again[2]}" if again and again[1] in tops else top


def _settle(loose: set[str], scopes: dict[str, str], reads: Mapping[str, Iterable[str]]) -> None:
    """Finds a scope for each loose operation: of all that it reads, else of all that read it."""
    sources, readers = defaultdict(set), defaultdict(set)
    for name, others in reads.items():
        for other in others:
            reader, source = name.partition("/")[0], other.partition("/")[0]
            sources[reader].add(source)
            readers[source].add(reader)
    waiting = sorted(loose)
    while waiting:
        left = []
        for top in waiting:
            found = _one(sources[top] - {top}, scopes) or _one(readers[top] - {top}, scopes)
            if found:
                scopes[top] = found
            else:
                left.append(top)
        if len(left) == len(waiting):
            break
        waiting = left
    scopes.update(dict.fromkeys(waiting, REST))


def _one(tops: set[str], scopes: Mapping[str, str]) -> str | None:
    """Returns the first part of the one scope in which all of these are; None if there is none."""
    found = {scopes[top].partition("/")[0] if top in scopes else "" for top in tops}
    found = found - {INPUTS} or found
    return found.pop() if len(found) == 1 else None


def _needed(wanted: Iterable[tf.Operation]) -> list[tf.Operation]:
    waiting, found = list(wanted), {}
    while waiting:
        op = waiting.pop()
        if op.name not in found:
            found[op.name] = op
            waiting += [t.op for t in op.inputs] + _awaited(op)
    return list(found.values())


def _sources(op: tf.Operation) -> Iterator[str]:
    yield from (t.op.name for t in op.inputs)
    yield from (other.name for other in _awaited(op))


def _awaited(op: tf.Operation) -> list[tf.Operation]:
    """Returns those that run before, by name: TensorFlow has them in another order each time."""
    return sorted(op.control_inputs, key=lambda other: other.name)


def _fed(operations: Iterable[tf.Operation]) -> list[str]:
    return [op.name for op in operations if op.type == "Placeholder"]


def _node(op: tf.Operation, names: Mapping[str, str]) -> node_def_pb2.NodeDef:
    node = node_def_pb2.NodeDef(name=names[op.name], op=op.type)
    for tensor in op.inputs:
        place = f":{tensor.value_index}" if tensor.value_index else ""
        node.input.append(f"{names[tensor.op.name]}{place}")
    node.input.extend(f"^{names[other.name]}" for other in _awaited(op))
    for tensor in op.outputs:
        node.attr["_output_shapes"].list.shape.append(tensor.shape.as_proto())
    if op.type == "Const":
        value = op.node_def.attr["value"]
        if value.ByteSize() <= _LARGEST_VALUE:
            node.attr["value"].CopyFrom(value)
    return node
