"""The files that a run leaves behind: its directory, and the host state of its checkpoints.

directory.py  a run directory: config, weights, result, digest
copies.py     what a member of a population has copied from others
host.py       the host state of a checkpoint: everything beside variables and rows
machines.py   which machines a run was on
spaces.py     the spaces of its env, so that a policy needs the env no more

Imports: agents.config, envs, rl_core.
"""
