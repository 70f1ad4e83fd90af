"""The files that a run leaves behind: its directory, and the host state of its checkpoints.

directory.py   a run directory: config, weights, result, digest
population.py  a message about a population's directory
host.py        the host state of a checkpoint: everything beside variables and rows

Imports: agents.config, envs, rl_core.
"""
