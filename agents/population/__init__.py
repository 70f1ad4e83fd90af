"""Many agents in one graph and one process, each of which is a run.

train.py       train_population and resume_population: make everything, and let the members go
turns.py       the members' loops in one thread, each going on in its turn
directory.py   the directory of a population, with a run directory for each member

Imports: agents.config, agents.dqn, agents.run, agents.saved, envs, rl_core.
"""
