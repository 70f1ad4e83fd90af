"""Graphs of many kinds of agents, in a form that two commits can be compared by.

python -m tests.agents.graphs DIRECTORY     writes each as text, to find what differs
python -m tests.agents.graphs --store       after a change that was meant
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.envs.in_graph.table import make_rules
from targetnet.rl_core.schedules import Linear

STORED = Path(__file__).with_name("graphs.json")
COMMON: dict[str, Any] = {
    "hidden": (8,), "batch_size": 8, "replay_capacity": 100, "sync_period": 37,
    "updates_per_learn": 1, "learning_rate": 1e-3, "loss": "huber",
    "epsilon": Linear(start=1.0, end=0.05, steps=1_000),
}  # fmt: skip
PHASES = {"learn_period": 16, "updates_per_learn": 8}
C51 = {"head": "categorical", "v_min": 0.0, "v_max": 50.0, "atoms": 11}
COMPILED = {"loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 250}
FREEZE = ({"exempt": ("head",), "updates": 30}, {"exempt": ("torso",), "updates": 20})
IN_GRAPH = {"rules": "InGraph/CartPole-v1", "observation_shape": (4,), "num_actions": 2}
ROLLOUTS = {
    "rollout": 20, "num_envs": 4, "epochs": 2, "layer_norm": True, "normalize_observations": True,
    "loss": "squared",
}  # fmt: skip
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "phases, freezing, three targets": (
        {**PHASES, "freeze": FREEZE, "averaged_targets": 3, "on_sync": ("reset_moments",)}, {},
    ),
    "chain, prioritized": ({"chain": 3, "refresh_period": 4, "prioritized": True}, {}),
    "recurrent, prioritized": (
        {"recurrent": "gru", "recurrent_units": 8, "sequence_length": 8, "burn_in": 4,
         "prioritized": True, "n_step": 3}, {},
    ),
    "compiled, prioritized": (
        {**COMPILED, **PHASES, "prioritized": True, "n_step": 3, "num_envs": 2}, IN_GRAPH,
    ),
    "population": ({"tau": 0.1}, {"members": 3}),
    "rainbow": (
        {**C51, "double": True, "dueling": True, "noisy": True, "epsilon": 0.0, "n_step": 3,
         "prioritized": True, "xla": False}, {},
    ),
    "held still, conservative": (
        {"online_weight": 0.25, "min_weight": 0.5, "functional_weight": 0.1,
         "proximal_weight": 0.5, "cql_weight": 0.5, "ema_decay": 0.99, "sync_distance": 0.1}, {},
    ),
    "implicit, Munchausen": (
        {"head": "implicit", "tau_samples": 8, "tau_samples_acting": 4, "munchausen": True}, {},
    ),
    "fqf, compiled, freezing": (
        {**COMPILED, **PHASES, "head": "fqf", "fractions": 8, "freeze": FREEZE}, IN_GRAPH,
    ),
    "quantile, Boltzmann, masks": (
        {"head": "quantile", "quantiles": 8, "boltzmann": True, "double": True},
        {"action_masks": True},
    ),
    "branches, dueling": ({**PHASES, "dueling": True}, {"branches": (2, 3), "num_actions": 5}),
    "a chain of heads": ({"chain": 3, "chain_torso": "shared", "value_rescaling": True}, {}),
    "rollouts, four envs": (ROLLOUTS, {}),
    "pictures, concurrent": (
        {"network": "minatar", "loop": "concurrent", **PHASES, "histograms": 1, "dueling": True},
        {"observation_shape": (10, 10, 4), "observation_dtype": np.uint8},
    ),
}  # fmt: skip
_OF_A_REPLAY = {"replay_capacity", "sync_period", "updates_per_learn"}


def text(kind: str) -> str:
    """Returns all operations of the kind's graph in the order in which they were made.

    Functions and what they take have numbers: TensorFlow names them after Python's functions,
    and appends a number that depends on what the process has built before.
    """
    settings, how = KINDS[kind]
    config = COMMON | settings
    if "rollout" in settings:
        config = {name: value for name, value in config.items() if name not in _OF_A_REPLAY}
    seen = {"observation_shape": (2,), "observation_dtype": np.float32, "num_actions": 3} | how
    if "rules" in how:
        seen["rules"] = make_rules(seen["rules"])
    agent = DqnAgent(DqnConfig(**config), **seen)
    try:
        graph = agent.engine.graph.as_graph_def()
    finally:
        agent.close()
    return "\n".join(_lines(graph))


def _lines(graph: Any) -> Iterator[str]:
    functions = {function.signature.name: function for function in graph.library.function}
    numbers: dict[str, str] = {}

    def number(name: str) -> str:
        return numbers.setdefault(name, f"function_{len(numbers)}")

    def line(node: Any) -> str:
        attributes = []
        for name, value in sorted(node.attr.items()):
            if name in _OF_THE_PROCESS:
                continue
            for function in (value.func, *value.list.func):
                if function.name:
                    function.name = number(function.name)
            attributes.append(f"{name}={value.SerializeToString(deterministic=True).hex()}")
        return f"{node.op} {node.name}({', '.join(node.input)}) {' '.join(attributes)}"

    yield from map(line, graph.node)
    written = 0
    while written < len(numbers):
        name = list(numbers)[written]
        function = functions[name]
        yield f"{number(name)}:"
        called = {arg.name: f"arg_{i}" for i, arg in enumerate(function.signature.input_arg)}
        yield from (f"  takes {arg.type}" for arg in function.signature.input_arg)
        for node in function.node_def:
            node.input[:] = [called.get(taken, taken) for taken in node.input]
            yield f"  {line(node)}"
        yield from (
            f"  gives {called.get(function.ret[arg.name], function.ret[arg.name])}"
            for arg in function.signature.output_arg
        )
        yield from (f"  after {done}" for done in sorted(function.control_ret.values()))
        written += 1


# What the session was told, and names with numbers that depend on what was built before.
_OF_THE_PROCESS = {"config_proto", "executor_type", "_gradient_op_type"}


def digest(kind: str) -> str:
    return hashlib.sha256(text(kind).encode()).hexdigest()


def main() -> None:
    if sys.argv[1:] == ["--store"]:
        found = {"tensorflow": version("tensorflow"), **{kind: digest(kind) for kind in KINDS}}
        STORED.write_text(json.dumps(found, indent=2) + "\n")
        return
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        (directory / f"{kind}.txt").write_text(text(kind))


if __name__ == "__main__":
    main()
