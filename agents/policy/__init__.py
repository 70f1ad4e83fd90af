"""Uses of a run's weights: play, export, initial weights of another run.

trained_policy.py      reads what a run has learned: weights and own live values
graph.py        the greedy policy as tensors
load.py         the greedy policy in a program of your own
play.py         shows the policy in a window or writes a video
export.py       writes the policy to files that do not need this project
warm_start.py   initializes a run with another run's weights

Imports: agents.config, agents.dqn, agents.loops, agents.saved, envs, rl_core.
"""
