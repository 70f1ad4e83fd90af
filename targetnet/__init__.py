"""All public names in one place: training, steering, policies, envs and the graph core.

    import targetnet

    config = targetnet.load_config("cartpole")
    outcome = targetnet.train(config, "runs/cartpole-1")

The names are those of `agents`, `envs` and `rl_core`, loaded on first use; there is nothing else.

Imports: agents, envs, rl_core.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.config.files import load_config as load_config
    from agents.config.members import Members as Members
    from agents.config.members import load_members as load_members
    from agents.config.model import DqnConfig as DqnConfig
    from agents.config.model import FreezeArm as FreezeArm
    from agents.config.own_live import OwnLive as OwnLive
    from agents.controllers.seen import Controller as Controller
    from agents.controllers.seen import Seen as Seen
    from agents.data.record import record as record
    from agents.dqn.agent import DqnAgent as DqnAgent
    from agents.dqn.agent import LearnStats as LearnStats
    from agents.loops.evaluation import evaluate as evaluate
    from agents.loops.plain import LoopState as LoopState
    from agents.loops.plain import Tick as Tick
    from agents.loops.plain import training_loop as training_loop
    from agents.policy.export import export as export
    from agents.policy.load import LoadedPolicy as LoadedPolicy
    from agents.policy.load import load_policy as load_policy
    from agents.policy.play import play as play
    from agents.population.going import PopulationOutcome as PopulationOutcome
    from agents.population.repeat import repeat_population
    from agents.population.train import resume_population as resume_population
    from agents.population.train import train_population as train_population
    from agents.run.outcome import RunOutcome as RunOutcome
    from agents.run.repeat import Verdict as Verdict
    from agents.run.repeat import repeat
    from agents.run.train import resume as resume
    from agents.run.train import train as train
    from envs.factory import Vectorization as Vectorization
    from envs.factory import make_envs as make_envs
    from envs.interface import Envs as Envs
    from envs.interface import Episode as Episode
    from envs.interface import Step as Step
    from envs.seeding import episode_seed as episode_seed
    from rl_core.board.events import EventWriter as EventWriter
    from rl_core.board.read_events import Curve as Curve
    from rl_core.board.read_events import read_curve as read_curve
    from rl_core.branches import by_branch as by_branch
    from rl_core.checkpoint.store import Checkpoint as Checkpoint
    from rl_core.checkpoint.store import CheckpointError as CheckpointError
    from rl_core.checkpoint.store import CheckpointStore as CheckpointStore
    from rl_core.control.changes import Refused as Refused
    from rl_core.control.client import NotRunning as NotRunning
    from rl_core.control.client import RunClient as RunClient
    from rl_core.control.steering import Steering as Steering
    from rl_core.digest import Digest as Digest
    from rl_core.errors import ArgumentError as ArgumentError
    from rl_core.errors import BoundsError as BoundsError
    from rl_core.errors import ConfigError as ConfigError
    from rl_core.errors import EnvError as EnvError
    from rl_core.errors import FeedError as FeedError
    from rl_core.errors import MemoryLimitError as MemoryLimitError
    from rl_core.errors import RlCoreError as RlCoreError
    from rl_core.errors import RunDirError as RunDirError
    from rl_core.errors import ScopeMismatch as ScopeMismatch
    from rl_core.errors import ShapeError as ShapeError
    from rl_core.errors import StaticHyperparameter as StaticHyperparameter
    from rl_core.errors import UnknownName as UnknownName
    from rl_core.exploration import boltzmann as boltzmann
    from rl_core.exploration import branching_epsilon_greedy as branching_epsilon_greedy
    from rl_core.exploration import epsilon_greedy as epsilon_greedy
    from rl_core.graph.engine import Engine as Engine
    from rl_core.graph.layers import conv2d as conv2d
    from rl_core.graph.layers import dense as dense
    from rl_core.graph.layers import dropout as dropout
    from rl_core.graph.layers import layer_norm as layer_norm
    from rl_core.graph.layers import noisy_dense as noisy_dense
    from rl_core.graph.past import PastStates as PastStates
    from rl_core.graph.saver import Saver as Saver
    from rl_core.graph.scopes import blocks_of as blocks_of
    from rl_core.graph.scopes import stop_gradient_getter as stop_gradient_getter
    from rl_core.graph.scopes import variables_in as variables_in
    from rl_core.graph.snapshots import Snapshots as Snapshots
    from rl_core.graph.sync import copy_vars as copy_vars
    from rl_core.graph.sync import paired_variables as paired_variables
    from rl_core.graph.weights import ScopeWeights as ScopeWeights
    from rl_core.graph.weights import VariableValues as VariableValues
    from rl_core.graph.weights import variables_to_restore as variables_to_restore
    from rl_core.hyperparameters import BlocksKnob as BlocksKnob
    from rl_core.hyperparameters import Hyperparameters as Hyperparameters
    from rl_core.hyperparameters import Knob as Knob
    from rl_core.losses.branching import branching_target as branching_target
    from rl_core.losses.categorical import categorical_projection as categorical_projection
    from rl_core.losses.categorical import categorical_q_learning as categorical_q_learning
    from rl_core.losses.categorical import support as support
    from rl_core.losses.hl_gauss import gaussian_histogram as gaussian_histogram
    from rl_core.losses.hl_gauss import hl_gauss as hl_gauss
    from rl_core.losses.masking import legal_only as legal_only
    from rl_core.losses.munchausen import log_policy as log_policy
    from rl_core.losses.munchausen import munchausen_bonus as munchausen_bonus
    from rl_core.losses.munchausen import munchausen_q_learning as munchausen_q_learning
    from rl_core.losses.munchausen import munchausen_quantile as munchausen_quantile
    from rl_core.losses.munchausen import soft_bootstrap as soft_bootstrap
    from rl_core.losses.quantile import quantile_huber as quantile_huber
    from rl_core.losses.quantile import quantile_midpoints as quantile_midpoints
    from rl_core.losses.quantile import quantile_q_learning as quantile_q_learning
    from rl_core.losses.returns import lambda_returns as lambda_returns
    from rl_core.losses.stillness import blend as blend
    from rl_core.losses.stillness import functional_penalty as functional_penalty
    from rl_core.losses.td import TdLoss as TdLoss
    from rl_core.losses.td import double_q_learning as double_q_learning
    from rl_core.losses.td import huber as huber
    from rl_core.losses.td import q_learning as q_learning
    from rl_core.losses.td import squared as squared
    from rl_core.networks.heads import Streams as Streams
    from rl_core.networks.heads import categorical_head as categorical_head
    from rl_core.networks.heads import implicit_head as implicit_head
    from rl_core.networks.heads import q_head as q_head
    from rl_core.networks.heads import quantile_head as quantile_head
    from rl_core.networks.network import Conditions as Conditions
    from rl_core.networks.network import Values as Values
    from rl_core.networks.network import q_network as q_network
    from rl_core.networks.torsos import impala_torso as impala_torso
    from rl_core.networks.torsos import minatar_torso as minatar_torso
    from rl_core.networks.torsos import mlp_torso as mlp_torso
    from rl_core.networks.torsos import nature_torso as nature_torso
    from rl_core.optimizers.freeze import AllExempt as AllExempt
    from rl_core.optimizers.freeze import ApplyOps as ApplyOps
    from rl_core.optimizers.freeze_schedule import Arm as Arm
    from rl_core.optimizers.freeze_schedule import FreezeSchedule as FreezeSchedule
    from rl_core.optimizers.fused import fused_updates as fused_updates
    from rl_core.optimizers.phase import PhaseCalls as PhaseCalls
    from rl_core.random import Draws as Draws
    from rl_core.random import Stream as Stream
    from rl_core.replay.contents import ReplayContents as ReplayContents
    from rl_core.replay.epochs import EpochSampler as EpochSampler
    from rl_core.replay.items import NStepTransitions as NStepTransitions
    from rl_core.replay.items import Transitions as Transitions
    from rl_core.replay.memory import ReplayMemory as ReplayMemory
    from rl_core.replay.prioritized import PrioritizedSampler as PrioritizedSampler
    from rl_core.replay.rows import Column as Column
    from rl_core.replay.rows import Rows as Rows
    from rl_core.replay.rows import transition_columns as transition_columns
    from rl_core.replay.samplers import UniformSampler as UniformSampler
    from rl_core.replay.valid_rows import ValidRows as ValidRows
    from rl_core.schedules import Constant as Constant
    from rl_core.schedules import Geometric as Geometric
    from rl_core.schedules import Linear as Linear
    from rl_core.schedules import Piecewise as Piecewise
    from rl_core.schedules import Schedule as Schedule

    replay = repeat
    replay_population = repeat_population

_PACKAGES = ("agents", "envs", "rl_core")


def _require_ours() -> None:
    """Raises ImportError where a module of the user's own hides one of the packages."""
    for name in _PACKAGES:
        found = importlib.util.find_spec(name)
        ours = Path(__file__).parents[1] / name / "__init__.py"
        if found is not None and found.origin and not Path(found.origin).samefile(ours):
            raise ImportError(
                f"targetnet needs its package {name}, but {found.origin} hides it: "
                "rename that file, or run Python where it is not found first"
            )


_require_ours()
_place_of = {
    name: package for package in _PACKAGES for name in importlib.import_module(package).__all__
}
__all__ = sorted(_place_of)


def __getattr__(name: str) -> Any:
    if name not in _place_of:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_place_of[name]), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return __all__
