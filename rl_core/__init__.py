"""Graph core for target-network agents: scopes, syncs, freezing, replay, losses.

graph/       the graph, without reinforcement learning: engine, scopes, syncs, members, XLA
networks/    torsos and heads                losses/      one value per transition
optimizers/  Adam and others, freezing, many updates in one call
replay/      rows, batches, priorities       checkpoint/  checkpoints on disk
control/     steering of a run by files      board/       TensorBoard and the Steer tab

random.py, philox.py                     numbers by seed, stream and counter: in the graph, in NumPy
exploration.py, epsilon_greedy_numpy.py  actions from values: in the graph, in NumPy
hyperparameters.py, schedules.py         live values, and values that change by themselves
branches.py, observation_parts.py        actions and observations of several parts, in one row
own_gradient.py, own_function.py         gradients of our own; functions of the user's own
arguments.py, validation.py, errors.py   what is refused, in one line
files.py, seal.py, digest.py             files written whole; seals; the hash of a run
console.py, machine.py, lazy.py, extras.py, search_path.py  what surrounds a program

Public names are re-exported here and loaded on first use. The board, `targetnet set` and
`--help` run without TensorFlow and import submodules of this package too; they must not wait
several seconds for TensorFlow's import.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from targetnet.rl_core.lazy import ONEDNN_VARIABLE, choose_log_level, lazy_names

if TYPE_CHECKING:
    from targetnet.rl_core.board.events import EventWriter
    from targetnet.rl_core.board.read_events import Curve, read_curve
    from targetnet.rl_core.branches import by_branch
    from targetnet.rl_core.checkpoint.store import Checkpoint, CheckpointError, CheckpointStore
    from targetnet.rl_core.control.changes import Refused
    from targetnet.rl_core.control.client import NotRunning, RunClient
    from targetnet.rl_core.control.steering import Steering
    from targetnet.rl_core.digest import Digest
    from targetnet.rl_core.errors import (
        ArgumentError,
        BoundsError,
        ConfigError,
        EnvError,
        FeedError,
        MemoryLimitError,
        RlCoreError,
        RunDirError,
        ScopeMismatch,
        ShapeError,
        StaticHyperparameter,
        UnknownName,
    )
    from targetnet.rl_core.exploration import boltzmann, branching_epsilon_greedy, epsilon_greedy
    from targetnet.rl_core.graph.engine import Engine
    from targetnet.rl_core.graph.layers import conv2d, dense, dropout, layer_norm, noisy_dense
    from targetnet.rl_core.graph.scopes import blocks_of, stop_gradient_getter, variables_in
    from targetnet.rl_core.graph.snapshots import Snapshots
    from targetnet.rl_core.graph.sync import copy_vars, paired_variables
    from targetnet.rl_core.graph.tf1 import PastStates, Saver
    from targetnet.rl_core.graph.weights import ScopeWeights, VariableValues, variables_to_restore
    from targetnet.rl_core.hyperparameters import BlocksKnob, Hyperparameters, Knob
    from targetnet.rl_core.losses.branching import branching_target
    from targetnet.rl_core.losses.categorical import (
        categorical_projection,
        categorical_q_learning,
        support,
    )
    from targetnet.rl_core.losses.hl_gauss import gaussian_histogram, hl_gauss
    from targetnet.rl_core.losses.masking import legal_only
    from targetnet.rl_core.losses.munchausen import (
        log_policy,
        munchausen_bonus,
        munchausen_q_learning,
        munchausen_quantile,
        soft_bootstrap,
    )
    from targetnet.rl_core.losses.quantile import (
        quantile_huber,
        quantile_midpoints,
        quantile_q_learning,
    )
    from targetnet.rl_core.losses.returns import lambda_returns
    from targetnet.rl_core.losses.target_regularizers import blend, functional_penalty
    from targetnet.rl_core.losses.td import TdLoss, double_q_learning, huber, q_learning, squared
    from targetnet.rl_core.networks.heads import (
        Streams,
        categorical_head,
        implicit_head,
        q_head,
        quantile_head,
    )
    from targetnet.rl_core.networks.network import Conditions, Values, q_network
    from targetnet.rl_core.networks.torsos import (
        impala_torso,
        minatar_torso,
        mlp_torso,
        nature_torso,
    )
    from targetnet.rl_core.optimizers.calls import PhaseCalls, fused_updates
    from targetnet.rl_core.optimizers.freeze import AllExempt, ApplyOps, Arm, FreezeSchedule
    from targetnet.rl_core.random import Draws, Stream
    from targetnet.rl_core.replay.contents import ReplayContents
    from targetnet.rl_core.replay.items import NStepTransitions, Transitions
    from targetnet.rl_core.replay.memory import ReplayMemory
    from targetnet.rl_core.replay.prioritized import PrioritizedSampler
    from targetnet.rl_core.replay.rows import Column, Rows, transition_columns
    from targetnet.rl_core.replay.samplers import EpochSampler, UniformSampler
    from targetnet.rl_core.replay.valid_rows import ValidRows
    from targetnet.rl_core.schedules import Constant, Geometric, Linear, Piecewise, Schedule

# TensorFlow reads this variable once, at import. oneDNN's kernels cost 5 us more per small matrix
# product, which doubles the time of acting; small networks learn as fast with the plain kernels.
os.environ.setdefault(ONEDNN_VARIABLE, "0")
# Level 3 hides nothing that is needed, because failures are raised; below 3 TensorFlow also logs
# that the machine has no GPU.
choose_log_level()

_NAMES_OF = {
    "checkpoint.store": "Checkpoint CheckpointError CheckpointStore",
    "control.client": "NotRunning RunClient",
    "control.changes": "Refused",
    "control.steering": "Steering",
    "digest": "Digest",
    "errors": (
        "ArgumentError BoundsError ConfigError EnvError FeedError MemoryLimitError RlCoreError "
        "RunDirError ScopeMismatch ShapeError StaticHyperparameter UnknownName"
    ),
    "board.events": "EventWriter",
    "board.read_events": "Curve read_curve",
    "branches": "by_branch",
    "exploration": "boltzmann branching_epsilon_greedy epsilon_greedy",
    "graph.engine": "Engine",
    "graph.layers": "conv2d dense dropout layer_norm noisy_dense",
    "graph.tf1": "PastStates Saver",
    "graph.scopes": "blocks_of stop_gradient_getter variables_in",
    "graph.snapshots": "Snapshots",
    "graph.sync": "copy_vars paired_variables",
    "graph.weights": "ScopeWeights VariableValues variables_to_restore",
    "hyperparameters": "BlocksKnob Hyperparameters Knob",
    "losses.branching": "branching_target",
    "losses.categorical": "categorical_projection categorical_q_learning support",
    "losses.hl_gauss": "gaussian_histogram hl_gauss",
    "losses.masking": "legal_only",
    "losses.munchausen": (
        "log_policy munchausen_bonus munchausen_q_learning munchausen_quantile soft_bootstrap"
    ),
    "losses.quantile": "quantile_huber quantile_midpoints quantile_q_learning",
    "losses.returns": "lambda_returns",
    "losses.target_regularizers": "blend functional_penalty",
    "losses.td": "TdLoss double_q_learning huber q_learning squared",
    "networks.heads": "Streams categorical_head implicit_head q_head quantile_head",
    "networks.network": "Conditions Values q_network",
    "networks.torsos": "impala_torso minatar_torso mlp_torso nature_torso",
    "optimizers.calls": "PhaseCalls fused_updates",
    "optimizers.freeze": "AllExempt ApplyOps Arm FreezeSchedule",
    "random": "Draws Stream",
    "replay.contents": "ReplayContents",
    "replay.items": "NStepTransitions Transitions",
    "replay.memory": "ReplayMemory",
    "replay.prioritized": "PrioritizedSampler",
    "replay.rows": "Column Rows transition_columns",
    "replay.samplers": "EpochSampler UniformSampler",
    "replay.valid_rows": "ValidRows",
    "schedules": "Constant Geometric Linear Piecewise Schedule",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES_OF)
