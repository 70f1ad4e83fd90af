"""What a run has learned, used elsewhere.

load.py         a run's policy in a graph of its own
play.py         watched in a window or as a video
export.py       as files that need neither this project nor its agent
warm_start.py   as the beginning of another run

Imports: agents.config, agents.dqn, agents.loops, agents.run, envs, rl_core.
"""
