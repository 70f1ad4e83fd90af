"""All public names in one place: training, steering, policies, envs and the graph core.

    import targetnet

    config = targetnet.load_config("cartpole")
    outcome = targetnet.train(config, "runs/cartpole-1")

The names are those of `agents`, `envs` and `rl_core`, loaded on first use; there is nothing else.
In a checkout these three are links to the folders beside this one: each file is there once.

Imports: agents, envs, rl_core.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from targetnet import agents, envs, rl_core

if TYPE_CHECKING:
    from targetnet.agents.config.files import load_config as load_config
    from targetnet.agents.config.learning_keys import FreezeArm as FreezeArm
    from targetnet.agents.config.members import Members as Members
    from targetnet.agents.config.members import load_members as load_members
    from targetnet.agents.config.model import DqnConfig as DqnConfig
    from targetnet.agents.config.own_live import OwnLive as OwnLive
    from targetnet.agents.controllers.run_view import Controller as Controller
    from targetnet.agents.controllers.run_view import RunView as RunView
    from targetnet.agents.data.record import record as record
    from targetnet.agents.dqn.agent import DqnAgent as DqnAgent
    from targetnet.agents.dqn.agent import LearnStats as LearnStats
    from targetnet.agents.loops.evaluation import evaluate as evaluate
    from targetnet.agents.loops.plain import LoopState as LoopState
    from targetnet.agents.loops.plain import Tick as Tick
    from targetnet.agents.loops.plain import training_loop as training_loop
    from targetnet.agents.policy.export import export as export
    from targetnet.agents.policy.load import LoadedPolicy as LoadedPolicy
    from targetnet.agents.policy.load import load_policy as load_policy
    from targetnet.agents.policy.play import play as play
    from targetnet.agents.population.repeat import repeat_population
    from targetnet.agents.population.runner import PopulationOutcome as PopulationOutcome
    from targetnet.agents.population.train import resume_population as resume_population
    from targetnet.agents.population.train import train_population as train_population
    from targetnet.agents.run.outcome import RunOutcome as RunOutcome
    from targetnet.agents.run.repeat import Verdict as Verdict
    from targetnet.agents.run.repeat import repeat
    from targetnet.agents.run.train import resume as resume
    from targetnet.agents.run.train import train as train
    from targetnet.envs.factory import Vectorization as Vectorization
    from targetnet.envs.factory import make_envs as make_envs
    from targetnet.envs.interface import Envs as Envs
    from targetnet.envs.interface import Episode as Episode
    from targetnet.envs.interface import Step as Step
    from targetnet.envs.seeding import episode_seed as episode_seed
    from targetnet.rl_core.board.events import EventWriter as EventWriter
    from targetnet.rl_core.board.read_events import Curve as Curve
    from targetnet.rl_core.board.read_events import read_curve as read_curve
    from targetnet.rl_core.branches import by_branch as by_branch
    from targetnet.rl_core.checkpoint.store import Checkpoint as Checkpoint
    from targetnet.rl_core.checkpoint.store import CheckpointError as CheckpointError
    from targetnet.rl_core.checkpoint.store import CheckpointStore as CheckpointStore
    from targetnet.rl_core.control.changes import Refused as Refused
    from targetnet.rl_core.control.client import NotRunning as NotRunning
    from targetnet.rl_core.control.client import RunClient as RunClient
    from targetnet.rl_core.control.steering import Steering as Steering
    from targetnet.rl_core.digest import Digest as Digest
    from targetnet.rl_core.errors import ArgumentError as ArgumentError
    from targetnet.rl_core.errors import BoundsError as BoundsError
    from targetnet.rl_core.errors import ConfigError as ConfigError
    from targetnet.rl_core.errors import EnvError as EnvError
    from targetnet.rl_core.errors import FeedError as FeedError
    from targetnet.rl_core.errors import MemoryLimitError as MemoryLimitError
    from targetnet.rl_core.errors import RlCoreError as RlCoreError
    from targetnet.rl_core.errors import RunDirError as RunDirError
    from targetnet.rl_core.errors import ScopeMismatch as ScopeMismatch
    from targetnet.rl_core.errors import ShapeError as ShapeError
    from targetnet.rl_core.errors import StaticHyperparameter as StaticHyperparameter
    from targetnet.rl_core.errors import UnknownName as UnknownName
    from targetnet.rl_core.exploration import boltzmann as boltzmann
    from targetnet.rl_core.exploration import branching_epsilon_greedy as branching_epsilon_greedy
    from targetnet.rl_core.exploration import epsilon_greedy as epsilon_greedy
    from targetnet.rl_core.graph.engine import Engine as Engine
    from targetnet.rl_core.graph.layers import conv2d as conv2d
    from targetnet.rl_core.graph.layers import dense as dense
    from targetnet.rl_core.graph.layers import dropout as dropout
    from targetnet.rl_core.graph.layers import layer_norm as layer_norm
    from targetnet.rl_core.graph.layers import noisy_dense as noisy_dense
    from targetnet.rl_core.graph.scopes import blocks_of as blocks_of
    from targetnet.rl_core.graph.scopes import stop_gradient_getter as stop_gradient_getter
    from targetnet.rl_core.graph.scopes import variables_in as variables_in
    from targetnet.rl_core.graph.snapshots import Snapshots as Snapshots
    from targetnet.rl_core.graph.sync import copy_vars as copy_vars
    from targetnet.rl_core.graph.sync import paired_variables as paired_variables
    from targetnet.rl_core.graph.tf1 import PastStates as PastStates
    from targetnet.rl_core.graph.tf1 import Saver as Saver
    from targetnet.rl_core.graph.weights import ScopeWeights as ScopeWeights
    from targetnet.rl_core.graph.weights import VariableValues as VariableValues
    from targetnet.rl_core.graph.weights import variables_to_restore as variables_to_restore
    from targetnet.rl_core.hyperparameters import BlocksKnob as BlocksKnob
    from targetnet.rl_core.hyperparameters import Hyperparameters as Hyperparameters
    from targetnet.rl_core.hyperparameters import Knob as Knob
    from targetnet.rl_core.losses.branching import branching_target as branching_target
    from targetnet.rl_core.losses.categorical import (
        categorical_projection as categorical_projection,
    )
    from targetnet.rl_core.losses.categorical import (
        categorical_q_learning as categorical_q_learning,
    )
    from targetnet.rl_core.losses.categorical import support as support
    from targetnet.rl_core.losses.hl_gauss import gaussian_histogram as gaussian_histogram
    from targetnet.rl_core.losses.hl_gauss import hl_gauss as hl_gauss
    from targetnet.rl_core.losses.masking import legal_only as legal_only
    from targetnet.rl_core.losses.munchausen import log_policy as log_policy
    from targetnet.rl_core.losses.munchausen import munchausen_bonus as munchausen_bonus
    from targetnet.rl_core.losses.munchausen import munchausen_q_learning as munchausen_q_learning
    from targetnet.rl_core.losses.munchausen import munchausen_quantile as munchausen_quantile
    from targetnet.rl_core.losses.munchausen import soft_bootstrap as soft_bootstrap
    from targetnet.rl_core.losses.quantile import quantile_huber as quantile_huber
    from targetnet.rl_core.losses.quantile import quantile_midpoints as quantile_midpoints
    from targetnet.rl_core.losses.quantile import quantile_q_learning as quantile_q_learning
    from targetnet.rl_core.losses.returns import lambda_returns as lambda_returns
    from targetnet.rl_core.losses.target_regularizers import blend as blend
    from targetnet.rl_core.losses.target_regularizers import (
        functional_penalty as functional_penalty,
    )
    from targetnet.rl_core.losses.td import TdLoss as TdLoss
    from targetnet.rl_core.losses.td import double_q_learning as double_q_learning
    from targetnet.rl_core.losses.td import huber as huber
    from targetnet.rl_core.losses.td import q_learning as q_learning
    from targetnet.rl_core.losses.td import squared as squared
    from targetnet.rl_core.networks.heads import Streams as Streams
    from targetnet.rl_core.networks.heads import categorical_head as categorical_head
    from targetnet.rl_core.networks.heads import implicit_head as implicit_head
    from targetnet.rl_core.networks.heads import q_head as q_head
    from targetnet.rl_core.networks.heads import quantile_head as quantile_head
    from targetnet.rl_core.networks.network import Conditions as Conditions
    from targetnet.rl_core.networks.network import Values as Values
    from targetnet.rl_core.networks.network import q_network as q_network
    from targetnet.rl_core.networks.torsos import impala_torso as impala_torso
    from targetnet.rl_core.networks.torsos import minatar_torso as minatar_torso
    from targetnet.rl_core.networks.torsos import mlp_torso as mlp_torso
    from targetnet.rl_core.networks.torsos import nature_torso as nature_torso
    from targetnet.rl_core.optimizers.calls import PhaseCalls as PhaseCalls
    from targetnet.rl_core.optimizers.calls import fused_updates as fused_updates
    from targetnet.rl_core.optimizers.freeze import AllExempt as AllExempt
    from targetnet.rl_core.optimizers.freeze import ApplyOps as ApplyOps
    from targetnet.rl_core.optimizers.freeze import Arm as Arm
    from targetnet.rl_core.optimizers.freeze import FreezeSchedule as FreezeSchedule
    from targetnet.rl_core.random import Draws as Draws
    from targetnet.rl_core.random import Stream as Stream
    from targetnet.rl_core.replay.contents import ReplayContents as ReplayContents
    from targetnet.rl_core.replay.items import NStepTransitions as NStepTransitions
    from targetnet.rl_core.replay.items import Transitions as Transitions
    from targetnet.rl_core.replay.memory import ReplayMemory as ReplayMemory
    from targetnet.rl_core.replay.prioritized import PrioritizedSampler as PrioritizedSampler
    from targetnet.rl_core.replay.rows import Column as Column
    from targetnet.rl_core.replay.rows import Rows as Rows
    from targetnet.rl_core.replay.rows import transition_columns as transition_columns
    from targetnet.rl_core.replay.samplers import EpochSampler as EpochSampler
    from targetnet.rl_core.replay.samplers import UniformSampler as UniformSampler
    from targetnet.rl_core.replay.valid_rows import ValidRows as ValidRows
    from targetnet.rl_core.schedules import Constant as Constant
    from targetnet.rl_core.schedules import Geometric as Geometric
    from targetnet.rl_core.schedules import Linear as Linear
    from targetnet.rl_core.schedules import Piecewise as Piecewise
    from targetnet.rl_core.schedules import Schedule as Schedule

    replay = repeat
    replay_population = repeat_population

_place_of = {name: part for part in (agents, envs, rl_core) for name in part.__all__}
__all__ = sorted(_place_of)


def __getattr__(name: str) -> Any:
    if name not in _place_of:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_place_of[name], name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return __all__
