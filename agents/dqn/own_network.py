"""A network function of the user's own: imported, tried out, and called.

It is tried out in a graph of its own, so a mistake is one line before anything else is built, and
the agent's graph has nothing of it.
"""

from __future__ import annotations

import inspect
import itertools
import re
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.agents.config.own_live import OwnLive
from targetnet.rl_core.errors import (
    ConfigError,
    ShapeError,
    UnknownName,
    did_you_mean,
    in_one_line,
    quoted,
)
from targetnet.rl_core.graph.scopes import root_scope, stop_gradient_getter, variables_in
from targetnet.rl_core.networks import Conditions
from targetnet.rl_core.networks.network import LiveScalars
from targetnet.rl_core.own_function import MORE, failure, imported
from targetnet.rl_core.random import Draws

_BATCH = 3  # observations that it is tried out on
_SCOPED = (
    "Keras layers, Sonnet's modules, tf.Variable and tf.Module ignore variable scopes and custom "
    "getters, so the target network could be neither copied nor kept from gradients; build layers "
    "with tf.get_variable, as rl_core's dense, conv2d, layer_norm and dropout do"
)
_LAYERS = ("keras", "tf_keras", "sonnet")  # packages whose layers cannot be used
_ASKED = "a tensor was asked whether it is true, and has no value yet"
_VARIABLES = ("VarHandleOp", "VariableV2")  # types of operations
# Parameters that a network function may have beside the observation.
GIVEN = ("live", "training", "draws")


class OwnNetwork:
    """The user's function "module:function": observations [B, ...] -> features [B, F].

    Observations of several parts are a dict of tensors, by the parts' names.

    By the names of its parameters it is also given:

      live: the config's own live values by name, float32 scalars.
      training: bool scalar tensor, true in updates.
      draws: random numbers of an update (targetnet.rl_core.random.Draws); None outside updates, and
        where the config says `noisy` those of acting too.

    Args:
      name: of the function, as in the config.
      taken: names of the head's blocks.
      live: the config's own live values.

    Raises:
      ConfigError: it cannot be imported or has other parameters; or, when called, it raises, makes
        variables that cannot be copied or learned, or draws random numbers that cannot be repeated.
      ShapeError: when called, it returns something else than features.
    """

    def __init__(self, name: str, taken: Collection[str], live: Mapping[str, OwnLive]) -> None:
        self._name, self._taken, self._live = name, taken, live
        self._function = _imported(name)
        self._parameters = _given_parameters(name, self._function)
        self._tried = False

    def __call__(self, observation: Any, conditions: Conditions) -> tf.Tensor:
        if not self._tried:
            self._try_out(tf2.nest.map_structure(lambda of: of.shape.as_list()[1:], observation))
            self._tried = True
        return self._features(observation, conditions)

    def _try_out(self, shapes: Any) -> None:
        """Calls it as an agent does: in a scope, in a guarded one, and again in the first."""
        # Under a root of its own: the agent's seed is a tensor of the agent's graph.
        with tf.Graph().as_default() as graph, root_scope("", 0):
            observation: Any
            if isinstance(shapes, dict):
                observation = {
                    name: tf.placeholder(tf.float32, [_BATCH, *of]) for name, of in shapes.items()
                }
            else:
                observation = tf.placeholder(tf.float32, [_BATCH, *shapes])
            live = {name: tf.placeholder(tf.float32, [], name) for name in self._live}
            learning = Conditions(Draws(0, "", tf.zeros([], tf.int64)), live, training=True)
            with tf.variable_scope("online"):
                features = self._features(observation, learning)
            with tf.variable_scope("target", custom_getter=stop_gradient_getter):
                self._features(observation, learning)
            made = _variables_of(graph)
            with tf.variable_scope("online", reuse=True):
                self._features(observation, Conditions(live=live))
            self._require_scoped(made, _variables_of(graph))
            self._require_blocks(made)
            self._require_repeatable(features)
            self._require_learnable(features)

    def _features(self, observation: Any, conditions: Conditions) -> tf.Tensor:
        given = {
            "live": _OwnScalars(self._live, conditions.live),
            "training": tf.constant(conditions.training),
            "draws": conditions.draws,
        }
        try:
            features = self._function(observation, **{n: given[n] for n in self._parameters})
        except (Exception, SystemExit) as error:
            raise _failure(self._name, "failed", error) from error
        # A symbolic one: NumPy's arrays and eager tensors are of no graph.
        if not tf.is_symbolic_tensor(features):
            raise self._not_features(_kind(features))
        first_part = tf2.nest.flatten(observation)[0]
        shape, batch = features.shape, first_part.shape[0]
        if shape.rank != 2 or not shape[1] or (batch and shape[0] not in (None, batch)):
            raise self._not_features(f"shape {shape} of observations of shape {first_part.shape}")
        if features.dtype != tf.float32:
            raise self._not_features(features.dtype.name)
        return features

    def _not_features(self, got: str) -> ShapeError:
        return ShapeError(
            f"network {self._name!r} must return features [B, F], a float32 tensor of rank 2 with "
            f"a row for each observation and F known, got {got}"
        )

    def _require_scoped(self, made: set[str], after_reuse: set[str]) -> None:
        """Requires that `get_variable` made every variable: in both scopes, and none on reuse."""
        online, target = ({n for n in made if n.startswith(s)} for s in ("online/", "target/"))
        alike = {n.replace("target/", "online/", 1) for n in target} ^ online
        wrong = (after_reuse - made) | (made - online - target) | alike
        if wrong:
            name = re.sub(r"^(online|target)(_\d+)?/", "", min(wrong))
            raise ConfigError(
                f"network {self._name!r} makes {name!r}, which is not a variable by "
                f"tf.get_variable: {_SCOPED}"
            )

    def _require_blocks(self, made: set[str]) -> None:
        names = variables_in("online", allow_missing=True).keys()
        kept = {f"{scope}/{name}" for scope in ("online", "target") for name in names}
        if others := made - kept:
            raise ConfigError(
                f"network {self._name!r} makes {min(others).partition('/')[2]!r} with "
                "trainable=False, which would be neither copied to the target network nor saved; "
                "use tf.constant"
            )
        bare = [name for name in names if "/" not in name]
        if bare:
            raise ConfigError(
                f"network {self._name!r} makes the variable {bare[0]!r} outside any scope; put its "
                "layers under tf.variable_scope(name), which is then a block that can be frozen"
            )
        for block in dict.fromkeys(name.split("/")[0] for name in names):
            if block in self._taken:
                raise ConfigError(
                    f"network {self._name!r} has a scope {block!r}, which is the head's; give it "
                    "another name"
                )

    def _require_repeatable(self, features: tf.Tensor) -> None:
        """Requires that no random numbers have a state, which no checkpoint could keep."""
        # Only what the features are made of: initializers draw once, before the first step.
        used = [op.node_def for op in ancestors(features.op)]
        bodies = features.graph.as_graph_def().library.function
        for node in itertools.chain(used, *(body.node_def for body in bodies)):
            if "seed2" in node.attr:  # which every operation with a random state has
                raise ConfigError(
                    f"network {self._name!r} draws random numbers by {node.op}, which a resumed "
                    "run could not repeat; take a parameter `draws` and use "
                    "targetnet.dropout(x, rate, draws) or draws.uniform(name, shape)"
                )

    def _require_learnable(self, features: tf.Tensor) -> None:
        variables = variables_in("online", allow_missing=True)
        try:
            gradients = tf.gradients(features, list(variables.values()))
        except (LookupError, TypeError, ValueError) as error:
            raise _failure(self._name, "cannot be learned", error) from error
        for (name, variable), gradient in zip(variables.items(), gradients, strict=True):
            if gradient is None:
                why = "on which its features do not depend; leave it out"
            elif variable.dtype.base_dtype != tf.float32:
                why = f"of {variable.dtype.base_dtype.name}, which must be float32"
            else:
                continue
            raise ConfigError(f"network {self._name!r} has a trainable variable {name!r} {why}")


class _OwnScalars(Mapping[str, tf.Tensor]):
    """The user's own live values, and no others."""

    def __init__(self, names: Collection[str], scalars: LiveScalars) -> None:
        self._names, self._scalars = names, scalars

    def __getitem__(self, name: str) -> tf.Tensor:
        if name not in self._names:
            raise UnknownName(
                f"the config has no [live.{in_one_line(name)}]{did_you_mean(name, self._names)}"
            )
        return self._scalars[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _given_parameters(name: str, function: Callable[..., Any]) -> tuple[str, ...]:
    """Returns which of GIVEN the function takes.

    Raises:
      ConfigError: it takes no observation, or needs something else.
    """
    try:
        first, *others = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()  # a function of C or an empty one; calling it says what is wrong
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for p in others:
        if p.name not in GIVEN and p.default is p.empty and p.kind not in kinds:
            raise ConfigError(
                f"network {name!r} has a parameter {quoted(p.name)}; beside {first.name!r} a "
                f"network function may have {', '.join(GIVEN)}{did_you_mean(p.name, GIVEN)}"
            )
    return tuple(p.name for p in others if p.name in GIVEN)


def _imported(name: str) -> Callable[..., Any]:
    # Not within the agent's graph: what a module makes when it is imported is none of it.
    with tf.Graph().as_default():
        try:
            function = imported("network", name)
        except ConfigError as error:
            if error.__cause__ is None or not _by_layers(error.__cause__):
                raise
            raise _failure(name, "cannot be imported", error.__cause__) from error.__cause__
    if isinstance(function, type):
        of_layers = any(map(_is_of_layers, (base.__module__ for base in function.__mro__)))
        more = f"; {_SCOPED}" if of_layers or issubclass(function, tf2.Module) else ""
        raise ConfigError(
            f"network {name!r} is a class, and a function is wanted that returns the features "
            f"[B, F] of observations [B, ...]{more}"
        )
    return function


def _failure(name: str, how: str, error: BaseException) -> ConfigError:
    is_asked = "as a Python `bool` is not allowed" in str(error)
    if _by_layers(error):
        more = f"; {_SCOPED}"
    else:
        more = "; use tf.where or tf.cond, not `if`" if is_asked else MORE
    return ConfigError(failure("network", name, how, error, _ASKED if is_asked else "") + more)


def _by_layers(error: BaseException) -> bool:
    modules = (
        frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)
    )
    return any(map(_is_of_layers, modules)) or any(of in str(error).lower() for of in _LAYERS)


def _is_of_layers(module: str) -> bool:
    return module.partition(".")[0] in _LAYERS


def ancestors(op: tf.Operation) -> set[tf.Operation]:
    """Returns `op` and the operations that it depends on."""
    found, waiting = {op}, [op]
    while waiting:
        last = waiting.pop()
        new = {*(tensor.op for tensor in last.inputs), *last.control_inputs} - found
        found |= new
        waiting += new
    return found


def _variables_of(graph: tf.Graph) -> set[str]:
    """Returns the names of all variables, also of those that are in no collection."""
    return {op.name for op in graph.get_operations() if op.type in _VARIABLES}


def _kind(value: Any) -> str:
    """Returns the name of a value's type: list, NoneType, numpy.ndarray."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
