"""Agents: DQN, its configuration, the loop that trains it, and the command line.

Public names are loaded on first use: the command line must not pay TensorFlow's import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rl_core.lazy import lazy_names

if TYPE_CHECKING:
    from agents.config import DqnConfig, FreezeArm
    from agents.config_files import load_config
    from agents.dqn import DqnAgent, LearnStats
    from agents.evaluation import evaluate
    from agents.exporting import export
    from agents.playing import play
    from agents.replaying import Verdict, replay
    from agents.run import Outcome
    from agents.runner import LoopState, Tick, training_loop
    from agents.training import resume, train

_NAMES_OF = {
    "config": "DqnConfig FreezeArm",
    "config_files": "load_config",
    "dqn": "DqnAgent LearnStats",
    "evaluation": "evaluate",
    "exporting": "export",
    "playing": "play",
    "replaying": "Verdict replay",
    "run": "Outcome",
    "runner": "LoopState Tick training_loop",
    "training": "resume train",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES_OF)
