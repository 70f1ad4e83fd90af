"""One run's life.

train.py         train and resume: makes everything and lets a Run go through it
run.py           Run: the loop, its evaluations and files, and what may be asked of it
directory.py     a run directory: config, weights, result, digest
checkpoints.py   checkpoints, taken between two time steps and written by a thread
curves.py        from the loop's ticks to TensorBoard
terminal.py      what a run shows on the terminal
trace.py         a checksum of every time step
repeat.py        a recorded run again, and whether it is the same
signals.py       Ctrl-C and SIGTERM as requests
quiet.py         importing TensorFlow without its log lines, timed

Imports: agents.config, agents.dqn, agents.loops, envs, rl_core.
"""
