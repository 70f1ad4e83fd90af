"""Agents that are built once and lent to one test after the other, as good as new each time.

Building an agent takes half a second, and making its calls as much again; what a test does with
it takes hundredths. So `DqnAgent` gives out agents of a pool here: one of the same config that
no test has now, put back to what it was right after it was built, every variable of its graph and
every attribute of our objects that can be reached from it, or a new one. Two agents in one test
are always two, so a run that is resumed, repeated or compared has an agent of its own.

The agent of a run is free again when the run has ended: whoever resumes or repeats it builds none.
Configs are one when they differ only in what no agent is built from.

A test that has replaced something in the modules that build gets agents built for it, and so does
one that asks for the fixture `own_agents`: about building itself, or with something of TensorFlow
replaced.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.run.run import Run
from targetnet.rl_core.graph.engine import Call, Engine

_AT_MOST = 40  # that nobody has; the one that waited longest is closed first
_BYTES_AT_MOST = 2_000_000  # of variables: a larger agent is not kept
# What of a config no agent is built from, unless its loop is in the graph too: what runs read, and
# live values that are looked up among the live values alone.
_OF_RUNS = (
    "actor_ahead", "actor_alpha", "actor_pace",
    "checkpoint_keep", "checkpoint_seconds", "checkpoint_steps", "controller", "controller_args",
    "controller_period", "env_id", "env_kwargs", "env_steps", "eval_episodes", "eval_max_steps",
    "eval_period", "final_eval_episodes", "learn_start", "log_period", "vectorization",
)  # fmt: skip
_LIVE = (
    "discount", "epsilon", "histograms", "huber_delta", "learning_rate", "max_grad_norm",
    "sync_period", "tau",
)  # fmt: skip
# To a class whose annotations somebody has looked at, and to one of which something was copied.
_ADDED_BY_PYTHON = ("__annotations__", "__slotnames__")
_NOT_KEPT = (Engine, Call)  # calls of the graph stay made
_BUILDING = (
    "targetnet.agents.config.live", "targetnet.agents.dqn", "targetnet.rl_core.exploration",
    "targetnet.rl_core.graph", "targetnet.rl_core.hyper", "targetnet.rl_core.losses",
    "targetnet.rl_core.networks", "targetnet.rl_core.random", "targetnet.rl_core.replay",
)  # fmt: skip


def _built_from(config: DqnConfig) -> DqnConfig:
    if config.loop == "compiled":
        return config
    fields = DqnConfig.model_fields
    same = {name: fields[name].default for name in _OF_RUNS + _LIVE}
    if not config.rollout:
        same["tau"] = 1.0  # which a chain needs
    return config.model_copy(update=same)


def _reconfigure(agent: DqnAgent, config: DqnConfig) -> None:
    """Gives an agent the values of another config that it could have been built from."""
    agent.config, live = config, agent.hyperparameters
    values = {name: getattr(config, name) for name in _LIVE}
    live._configured.update(values)
    for name, value in values.items():
        live._schedules.pop(name, None)
        if hasattr(value, "value_at"):
            live._schedules[name] = value
    agent._parts.live.start(live)


def _what_builds() -> dict[tuple[str, ...], int]:
    """Every name in the modules that build, and in their classes -> which object it is."""
    found = {}
    for module in [m for n, m in sys.modules.items() if n.startswith(_BUILDING)]:
        for name, value in list(vars(module).items()):
            found[module.__name__, name] = id(value)
            if isinstance(value, type) and value.__module__ == module.__name__:
                inside = dict(vars(value))
                for added in _ADDED_BY_PYTHON:
                    inside.pop(added, None)
                found |= {(module.__name__, name, part): id(of) for part, of in inside.items()}
    return found


class _First:
    """What an agent was when it was built, and how it becomes that again."""

    def __init__(self, agent: DqnAgent) -> None:
        self.agent = agent
        self._contents: list[tuple[Any, Any]] = []
        self._walk(agent.__dict__, set())
        session = agent.engine.session
        with agent.engine.graph.as_default():
            variables = agent.engine.graph.get_collection("variables")
        self._set = [v.initializer for v in variables]
        # Copies, because what is fetched may be the variable's own memory.
        values = [np.array(value) for value in session.run(variables)]
        self._values = {
            v.initializer.inputs[1]: value for v, value in zip(variables, values, strict=True)
        }
        self.nbytes = sum(value.nbytes for value in values)

    def again(self) -> dict[str, Any]:
        """The attributes of an agent as it was at first."""
        for thing, content in self._contents:
            if isinstance(thing, np.ndarray):
                thing[...] = content
            elif isinstance(thing, list):
                thing[:] = content
            else:
                thing.clear()
                thing.extend(content) if isinstance(thing, collections.deque) else thing.update(
                    content
                )
        self.agent.engine.session.run(self._set, self._values)
        return self.agent.__dict__

    def is_of(self, agent: DqnAgent) -> bool:
        return agent.engine is self.agent.engine

    def _walk(self, thing: Any, seen: set[int]) -> None:
        """Keeps what can change of everything that is reached from there."""
        if id(thing) in seen:
            return
        seen.add(id(thing))
        inside: Any = ()
        if isinstance(thing, np.ndarray):
            self._contents.append((thing, thing.copy()))
        elif isinstance(thing, dict | list | set | collections.deque):
            self._contents.append((thing, thing.copy()))
            inside = list(thing.values() if isinstance(thing, dict) else thing)
        elif isinstance(thing, tuple | frozenset):
            inside = thing
        elif isinstance(thing, types.FunctionType):
            with contextlib.suppress(ValueError):  # a cell that is still empty
                inside = [cell.cell_contents for cell in thing.__closure__ or ()]
        elif isinstance(thing, types.MethodType):
            inside = [thing.__self__]
        elif isinstance(thing, functools.partial):
            inside = [thing.func, *thing.args, *thing.keywords.values()]
        elif type(thing).__module__.startswith(
            ("targetnet.agents.", "targetnet.rl_core.")
        ) and not isinstance(thing, _NOT_KEPT):
            inside = [vars(thing)] if hasattr(thing, "__dict__") else []
        for one in inside:
            self._walk(one, seen)


class Pool:
    """Lends agents while a test runs; `take_back` ends that."""

    def __init__(self) -> None:
        self.built = self.lent_again = 0
        self._free: dict[str, list[_First]] = collections.defaultdict(list)
        self._lent: list[tuple[str, _First]] = []
        self._open = False
        self._build = DqnAgent.__init__
        self._builds: dict[tuple[str, ...], int] = {}

    def install(self, patch: Any) -> None:
        """From here on agents come from the pool."""
        pool = self

        @functools.wraps(self._build)
        def init(agent: DqnAgent, config: Any, *args: Any, **how: Any) -> None:
            # A network of one's own may be another one next time.
            if pool._open and ":" not in config.network and pool._builds_as_always():
                pool._lend(agent, config, *args, **how)
            else:
                pool._build(agent, config, *args, **how)

        patch.setattr(DqnAgent, "__init__", init)

        @functools.wraps(DqnAgent.close)
        def close(agent: DqnAgent) -> None:
            if not pool._open:
                agent.engine.close()

        patch.setattr(DqnAgent, "close", close)

        go = Run.go

        @functools.wraps(go)
        def go_and_give_back(run: Run) -> Any:
            try:
                return go(run)
            finally:
                self._give_back(run._parts.agent)

        patch.setattr(Run, "go", go_and_give_back)
        self._builds = _what_builds()

    def _builds_as_always(self) -> bool:
        now = _what_builds()
        # A name that a class had from its parent stands in the class itself once it is replaced.
        added = any(name[:2] in self._builds for name in now.keys() - self._builds.keys())
        return not added and all(now.get(n, which) == which for n, which in self._builds.items())

    @contextlib.contextmanager
    def open(self, is_open: bool = True) -> Iterator[None]:
        """Lends; or, closed, builds agents that stay whose they are."""
        before, self._open = self._open, is_open
        try:
            yield
        finally:
            self._open = before

    def take_back(self) -> None:
        """All that were lent."""
        for key, first in self._lent:
            self._take(key, first)
        self._lent = []

    def _give_back(self, agent: DqnAgent) -> None:
        for lent in [(k, first) for k, first in self._lent if first.is_of(agent)]:
            self._lent.remove(lent)
            self._take(*lent)

    def _take(self, key: str, first: _First) -> None:
        if first.nbytes <= _BYTES_AT_MOST:
            self._free[key].append(first)
        while sum(map(len, self._free.values())) > _AT_MOST:
            key = next(key for key, waiting in self._free.items() if waiting)
            self._free[key].pop(0).agent.engine.close()

    def _lend(self, agent: DqnAgent, config: Any, *args: Any, **how: Any) -> None:
        rules = how.get("rules")
        others = {name: value for name, value in how.items() if name != "rules"}
        key = repr((_built_from(config), args, sorted(others.items()), type(rules)))
        if self._free[key]:
            first = self._free[key].pop()
            self.lent_again += 1
        else:
            # Never the agent itself: what is built may refer to whom it was built for.
            template = object.__new__(DqnAgent)
            self._build(template, config, *args, **how)
            first = _First(template)
            self.built += 1
        self._free[key] = self._free.pop(key)  # now the last one in line
        self._lent.append((key, first))
        agent.__dict__ = first.again()
        _reconfigure(agent, config)


POOL = Pool()
