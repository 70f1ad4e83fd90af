"""Actions on the weights: reset a block, shrink and perturb it, recycle dormant units.

They are rare, so they are made outside the graph, on arrays that are read and set again. The graph
has no operation for them, and an agent that never uses them is what it was without.
"""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.learner import Learner
from targetnet.agents.dqn.live_feeds import OwnFeeds
from targetnet.agents.dqn.network import is_learned
from targetnet.agents.dqn.network_scopes import Networks
from targetnet.agents.dqn.own_network import ancestors
from targetnet.agents.dqn.state import AgentState
from targetnet.rl_core.control.commands import ALL_BLOCKS, THRESHOLD
from targetnet.rl_core.errors import (
    BoundsError,
    ConfigError,
    RlCoreError,
    UnknownName,
    did_you_mean,
    quoted,
)
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.scopes import MemberPart, Root, variables_in
from targetnet.rl_core.philox import stream_key


class FreshWeights:
    """Draws first weights of one network. Make it while the graph is being built.

    The initializers are in the graph already, and their seed can be fed; so nothing is added to it.

    Args:
      engine, root, networks: of the agent.

    Attributes:
      apart: whether they are drawn in a graph apart, because TensorFlow's own initializers draw.
    """

    def __init__(self, engine: Engine, root: Root, networks: Networks) -> None:
        self._engine, self._networks, self._seed = engine, networks, root.seed
        variables = variables_in(networks.online)
        self._names, self._first = tuple(variables), [v.initial_value for v in variables.values()]
        # Stateful operations would go on with their numbers, which no resumed run could repeat.
        drawing = [op.node_def for value in self._first for op in ancestors(value.op)]
        self.apart = any("seed2" in node.attr for node in drawing)

    def draw(self, seed: int, number: int) -> dict[str, np.ndarray]:
        """Returns weights by name: a function of the agent's seed and the number of the draw."""
        key = stream_key(seed, f"renewal {number}")
        own = int(key[0] >> np.uint64(1))  # seeds are below 2 ** 63
        if self.apart:
            return self._networks.first_weights(own)
        return dict(zip(self._names, self._call(np.int64(own)), strict=True))

    @functools.cached_property
    def _call(self) -> Any:
        return self._engine.callable(self._first, [self._seed])


_LEAST = 1e-9  # added to the mean activation of a layer, all of whose units may give 0


class RecycleCounts(NamedTuple):
    """Units that were recycled, and all that were looked at."""

    dormant: int
    units: int


class WeightResets(MemberPart):
    """Renews weights of one agent. Make it while the graph is being built.

        agent.weight_resets.reset("head")
        agent.weight_resets.perturb(0.8)
        agent.weight_resets.recycle(0.1, "torso")

    A block is the name of one, or "all". New weights are drawn by the initializers of the network,
    each time from another seed: a function of the agent's seed and of how often that was.

    Args:
      engine, config, root, networks, learner, own, state: of the agent.

    Attributes:
      draws_apart: whether initializers of TensorFlow's own draw the weights, in a graph apart.

    Raises:
      ConfigError: an action of the config cannot be made with this network.
    """

    def __init__(
        self,
        engine: Engine,
        config: DqnConfig,
        root: Root,
        networks: Networks,
        learner: Learner,
        own: OwnFeeds,
        state: AgentState,
    ) -> None:
        self._engine, self._config, self._networks = engine, config, networks
        self._learner, self._own, self._state = learner, own, state
        self._fresh, variables = FreshWeights(engine, root, networks), variables_in(networks.online)
        self.draws_apart = self._fresh.apart
        self._online = {name: root.relative(v.op.name) for name, v in variables.items()}
        self._everywhere = {
            name: [root.relative(v.op.name) for v in of] for name, of in networks.everywhere()
        }
        learned = [name for name in variables if is_learned(config, name)]
        self._blocks = {
            block: tuple(name for name in learned if name.split("/")[0] == block)
            for block in dict.fromkeys(name.split("/")[0] for name in learned)
        }
        self._slots, self._powers = dict[str, list[str]](), dict[str, dict[str, np.ndarray]]()
        for block, names in self._blocks.items():
            adam = learner.ops.optimizer(block)
            for name in names:
                slots = [adam.get_slot(variables[name], slot) for slot in ("m", "v")]
                self._slots[name] = [root.relative(slot.op.name) for slot in slots]
            powers = adam.first_powers().items()
            self._powers[block] = {root.relative(of): np.array(v, np.float32) for of, v in powers}
        for action in config.actions:
            try:
                self.check(action.do, action.words.block, now=False)
            except RlCoreError as error:
                raise ConfigError(f"actions: cannot {action.do}: {error}") from None

    def check(self, action: str, block: str = ALL_BLOCKS, *, now: bool = True) -> None:
        """Checks that an action can be made.

        Args:
          action: "reset", "perturb" or "recycle".
          now: False asks whether it ever can.

        Raises:
          UnknownName: there is no such block.
          RlCoreError: no unit of the block can be recycled, or no transition is stored yet.
        """
        self._names_in(block)
        if action != "recycle":
            return
        if not self._hidden_in(block):
            where = "the network" if block == ALL_BLOCKS else f"block {block!r}"
            raise RlCoreError(
                f"{where} has no hidden layer of rectified units to recycle: a dense or conv2d "
                "layer of targetnet, then perhaps a layer_norm, then tf.nn.relu (activation = "
                '"relu"), read by nothing but such layers'
            )
        if now and not self._state.contents.valid_rows():
            raise RlCoreError("no transition is in the replay yet, by which units are scored")

    def reset(self, block: str = ALL_BLOCKS) -> None:
        """Draws the weights of a block anew, and makes its optimizer new.

        Nikishin et al. (2022), https://arxiv.org/abs/2205.07802. The target, its older copies and
        the averaged weights get the same weights; the target's age goes on. Other blocks stay.

        Raises:
          UnknownName: there is no such block.
        """
        names, fresh = self._names_in(block), self._draw()
        changed = {of: fresh[name] for name in names for of in self._everywhere[name]}
        for name in names:
            changed |= {slot: np.zeros_like(fresh[name]) for slot in self._slots[name]}
        for of in self._blocks_in(block):
            changed |= self._powers[of]
        self._change(changed)

    def perturb(self, factor: float, block: str = ALL_BLOCKS) -> None:
        """Shrinks the weights of a block and adds newly drawn ones.

            w <- factor * w + (1 - factor) * new

        Ash & Adams (2020), https://arxiv.org/abs/1910.08475, with the network's initializers for
        the noise, as D'Oro et al. (2023), https://openreview.net/forum?id=OpC-9aBBVJe. In each
        copy of the network w is its own and `new` the same. The optimizer stays as it is.

        Args:
          factor: in [0, 1].

        Raises:
          UnknownName, BoundsError: there is no such block; `factor` is outside [0, 1].
        """
        _require_within("factor", factor, 1.0, "in [0, 1]")
        names, fresh = self._names_in(block), self._draw()
        kept, added = np.float32(factor), np.float32(1 - factor)
        new = {of: fresh[name] for name in names for of in self._everywhere[name]}
        now = self._state.learned.read_some(new)
        self._change({of: kept * now[of] + added * new[of] for of in new})

    def recycle(self, threshold: float = THRESHOLD, block: str = ALL_BLOCKS) -> RecycleCounts:
        """Recycles the dormant hidden units of a block.

            score = mean |h| / (mean of that over the units of the layer + 1e-9)

        with h over the next update's batch, and over all places of a convolution. Sokar et al.
        (2023), https://arxiv.org/abs/2302.12902, equation 1 and algorithm 1. A unit whose score is
        at most `threshold` gets newly drawn incoming weights and bias; its outgoing weights, which
        may be of the next block, become 0. Adam's moments of all of these become 0, its step
        counters stay. The target and the averaged weights stay.

        Raises:
          UnknownName: there is no such block.
          RlCoreError: no unit can be recycled, no transition is stored, or `threshold` < 0.
        """
        _require_within("threshold", threshold, math.inf, ">= 0")
        self.check("recycle", block)
        layers, fresh = self._hidden_in(block), self._draw()
        given = self._given()
        units = {layer: dormant(given[layer.scope], threshold) for layer in layers}
        of_all = [of for name in self._slots for of in (self._online[name], *self._slots[name])]
        values = self._state.learned.read_some(of_all)
        # All that is drawn first: a weight from one dormant unit to another one becomes 0.
        for layer, asleep in units.items():
            for name in self._names_below(layer.scope, layer.norm):
                values[self._online[name]][..., asleep] = fresh[name][..., asleep]
                for slot in self._slots[name]:
                    values[slot][..., asleep] = 0
        for layer, asleep in units.items():
            for name in self._names_below(*layer.into):
                for of in (self._online[name], *self._slots[name]):
                    set_rows(values[of], asleep, 0)
        self._change(values)
        found = list(units.values())
        return RecycleCounts(sum(int(of.sum()) for of in found), sum(of.size for of in found))

    def _draw(self) -> dict[str, np.ndarray]:
        """Returns first weights that no draw of this agent had before."""
        learned = self._state.learned
        learned.renewals += 1
        return self._fresh.draw(self._config.seed, learned.renewals)

    def _given(self) -> dict[str, np.ndarray]:
        """Returns what the units of each hidden layer give for the next update's batch."""
        hidden = self._networks.hidden
        inputs = self._learner.gradients.shown()
        # As many of both as the batch has: the state only if the network remembers.
        feeds = [self._networks.observations, self._networks.state][: len(inputs)]
        feeds += self._own.tensors.values()
        call = self._engine.callable([layer.activation for layer in hidden], feeds)
        values = call(*inputs, *self._own.values())
        return {layer.scope: value for layer, value in zip(hidden, values, strict=True)}

    def _change(self, values: Mapping[str, np.ndarray]) -> None:
        self._state.replaced += 1
        self._state.learned.change(values)

    def _blocks_in(self, block: str) -> Sequence[str]:
        if block != ALL_BLOCKS and block not in self._blocks:
            known = [*self._blocks, ALL_BLOCKS]
            raise UnknownName(
                f"no block {quoted(block)} ({', '.join(known)}){did_you_mean(block, known)}"
            )
        return tuple(self._blocks) if block == ALL_BLOCKS else (block,)

    def _names_in(self, block: str) -> list[str]:
        return [name for of in self._blocks_in(block) for name in self._blocks[of]]

    def _hidden_in(self, block: str) -> list[Any]:
        blocks, begin = self._blocks_in(block), f"{self._networks.online}/"
        hidden = self._networks.hidden
        return [of for of in hidden if of.scope.removeprefix(begin).split("/")[0] in blocks]

    def _names_below(self, *scopes: str | None) -> list[str]:
        """Returns the names of the weights right below some scopes."""
        begin = f"{self._networks.online}/"
        return [name for name in self._online if (begin + name).rpartition("/")[0] in scopes]


def dormant(given: np.ndarray, threshold: float) -> np.ndarray:
    """Returns which units of a layer are dormant, bool [n].

    Args:
      given: [..., n], what the units give.
    """
    mean = np.abs(given).mean(axis=tuple(range(given.ndim - 1)), dtype=np.float64)  # [n]
    return mean / (mean.mean() + _LEAST) <= threshold


def _require_within(name: str, value: object, most: float, wanted: str) -> None:
    if not isinstance(value, numbers.Real) or not 0 <= float(value) <= most:
        raise BoundsError(f"{name} must be a number {wanted}, got {quoted(value)}")


def set_rows(weights: np.ndarray, units: np.ndarray, value: float) -> None:
    """Sets the weights that lead away from some units of the layer before.

    Args:
      weights: [..., places * n, m], with the units varying fastest; 1-D ones are left alone.
      units: bool [n].
    """
    if weights.ndim < 2:
        return
    *lead, rows, columns = weights.shape
    weights.reshape(*lead, rows // units.size, units.size, columns)[..., units, :] = value
