"""Many agents in one graph and one process, each of which is a run.

train.py       train_population and resume_population: make everything, and let the members go
runner.py      the members' runs, going on together, and what came of them
exchanges.py   population-based training: exchanges between the members
truncation.py  who copies whom in an exchange, and how live values change
repeat.py      runs a recorded population again, and compares
scheduler.py   the members' loops in one thread, in turn; where they wait for one another
directory.py   the directory of a population; the change of all its members, all or nothing

Imports: agents.config, agents.controllers, agents.dqn, agents.loops, agents.run, agents.saved,
agents.sinks, envs, rl_core.
"""
