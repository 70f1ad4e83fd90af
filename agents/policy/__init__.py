"""Uses of a run's weights: play, export, initial weights of another run.

load.py         loads a run's weights, and its greedy policy in a separate graph
play.py         shows the policy in a window or writes a video
export.py       writes the policy to files that do not need this project
warm_start.py   initializes a run with another run's weights

Imports: agents.config, agents.dqn, agents.loops, agents.run, envs, rl_core.
"""
