"""Agents: DQN, its configuration, the loops that train it, and the command line.

Public names are imported on first use, so that the command line does not import TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rl_core.lazy import lazy_names

if TYPE_CHECKING:
    from agents.config.files import load_config
    from agents.config.members import Members, load_members
    from agents.config.model import DqnConfig, FreezeArm
    from agents.config.own_live import OwnLive
    from agents.controllers.seen import Controller, Seen
    from agents.data.record import record
    from agents.dqn.agent import DqnAgent, LearnStats
    from agents.loops.evaluation import evaluate
    from agents.loops.plain import LoopState, Tick, training_loop
    from agents.policy.export import export
    from agents.policy.load import LoadedPolicy, load_policy
    from agents.policy.play import play
    from agents.population.going import PopulationOutcome
    from agents.population.repeat import repeat_population as replay_population
    from agents.population.train import resume_population, train_population
    from agents.run.outcome import RunOutcome
    from agents.run.repeat import Verdict
    from agents.run.repeat import repeat as replay
    from agents.run.train import resume, train

_NAMES_OF = {
    "config.model": "DqnConfig FreezeArm",
    "config.files": "load_config",
    "config.members": "Members load_members",
    "config.own_live": "OwnLive",
    "controllers.seen": "Controller Seen",
    "data.record": "record",
    "dqn.agent": "DqnAgent LearnStats",
    "loops.evaluation": "evaluate",
    "loops.plain": "LoopState Tick training_loop",
    "policy.export": "export",
    "policy.load": "LoadedPolicy load_policy",
    "policy.play": "play",
    "population.going": "PopulationOutcome",
    "population.repeat": "repeat_population:replay_population",
    "population.train": "resume_population train_population",
    "run.outcome": "RunOutcome",
    "run.repeat": "Verdict repeat:replay",
    "run.train": "resume train",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES_OF)
