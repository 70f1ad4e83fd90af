"""What a run is asked to be.

model.py         DqnConfig: every key with its bounds and unit
settings.py      what configurations share: strict models, live fields, one-line errors
live_values.py   the live values of an agent, from its config
files.py         configs in TOML, shipped or by path
envs.py          the envs that a config names

Imports: envs, rl_core.
"""
