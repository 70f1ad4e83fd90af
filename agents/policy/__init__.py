"""Uses of a run's weights: play, export, initial weights of another run.

trained_policy.py  what a run has learned; as another run's initial weights
load.py            the greedy policy in a program of your own
play.py            shows the policy in a window or writes a video
export.py          writes the policy to files that do not need this project

Imports: agents.config, agents.dqn, agents.loops, agents.saved, envs, rl_core.
"""
