"""Agents: DQN, its configuration, the loops that train it, and the command line.

config/       every key, with its checks       dqn/          the agent: all that is in its graph
loops/        step envs, let the agent learn   run/          one run's life, from start to result
population/   many agents in one graph         remote/       actors that step envs elsewhere
saved/        the files that a run leaves      sinks/        where a run reports its curves
controllers/  functions that change values     policy/       uses of a run's weights
data/         datasets of Minari               experiments/  results, compare, sweep
cluster/      Ray: jobs on other machines      cli/          the `targetnet` command

Where to look, by file and name:

an action is chosen      dqn/acting.py: Actor.step; dqn/policy.py: Exploration.choose
an update is made        dqn/learner.py, whose first lines say which of four calls makes it;
                         dqn/update.py: Update._build, its ten steps
the target is copied     dqn/target.py: TargetClock.advance says when,
                         dqn/network_scopes.py: CopyOps.sync what
a head is added          dqn/heads.py: HEADS; its layers are in rl_core/networks/heads.py
a command reaches a run  cli/steer_commands.py: Set; rl_core/control/client.py: begin_all, and
                         rl_core/control/files.py: submit writes a file into control/inbox. Between
                         two ticks run/loop_runner.py: LoopRunner has it read by
                         rl_core/control/steering.py: Steering.poll and carried out by
                         rl_core/control/changes.py: Changes.carry_out. It acts from the next phase
                         of updates on (dqn/learner.py: Learner.plan), or the next chunk of a
                         compiled loop (dqn/compiled.py: ChunkRunner.run): both read
                         dqn/live_feeds.py: LiveFeeds.values
a checkpoint is written  run/checkpoints.py, whose first lines say what is in it; the agent's part
                         is dqn/state.py: AgentState, what Python knows saved/host.py: HostState
members stay exact       dqn/population.py: Population, the reasons and the check

Public names are imported on first use, so that the command line does not import TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from targetnet.rl_core.lazy import lazy_names

if TYPE_CHECKING:
    from targetnet.agents.config.files import load_config
    from targetnet.agents.config.learning_keys import FreezeArm
    from targetnet.agents.config.members import Members, load_members
    from targetnet.agents.config.model import DqnConfig
    from targetnet.agents.config.own_live import OwnLive
    from targetnet.agents.controllers.run_view import Controller, RunView
    from targetnet.agents.data.record import record
    from targetnet.agents.dqn.agent import DqnAgent, LearnStats
    from targetnet.agents.loops.evaluation import evaluate
    from targetnet.agents.loops.plain import LoopState, Tick, training_loop
    from targetnet.agents.policy.export import export
    from targetnet.agents.policy.load import LoadedPolicy, load_policy
    from targetnet.agents.policy.play import play
    from targetnet.agents.population.repeat import repeat_population as replay_population
    from targetnet.agents.population.runner import PopulationOutcome
    from targetnet.agents.population.train import resume_population, train_population
    from targetnet.agents.run.outcome import RunOutcome
    from targetnet.agents.run.repeat import Verdict
    from targetnet.agents.run.repeat import repeat as replay
    from targetnet.agents.run.train import resume, train

_NAMES_OF = {
    "config.model": "DqnConfig",
    "config.learning_keys": "FreezeArm",
    "config.files": "load_config",
    "config.members": "Members load_members",
    "config.own_live": "OwnLive",
    "controllers.run_view": "Controller RunView",
    "data.record": "record",
    "dqn.agent": "DqnAgent LearnStats",
    "loops.evaluation": "evaluate",
    "loops.plain": "LoopState Tick training_loop",
    "policy.export": "export",
    "policy.load": "LoadedPolicy load_policy",
    "policy.play": "play",
    "population.runner": "PopulationOutcome",
    "population.repeat": "repeat_population:replay_population",
    "population.train": "resume_population train_population",
    "run.outcome": "RunOutcome",
    "run.repeat": "Verdict repeat:replay",
    "run.train": "resume train",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES_OF)
