"""The configuration of a run.

model.py           DqnConfig: all keys together, and the defaults that depend on others
env_keys.py        keys of the env, each with its unit, bounds, papers and what it needs; so are:
network_keys.py    of the network; sync_keys.py, of the target network's copies; target_keys.py,
                   of the regression target; replay_keys.py, of what is learned from;
                   learning_keys.py, of the updates and exploration; run_keys.py, of the run
combinations.py    checks that keys go together
own_live.py        live values of the user's own, [live.NAME]
settings.py        base of all settings: strict models, live fields, one-line errors
weight_actions.py  actions on the weights that a config makes again and again
live_values.py     the live values that an agent has under its config
keys.py            the docs page of all keys, and the addresses of their papers
members.py         the members of a population: configs that differ in seed and live values
pbt.py             population-based training: how members copy one another
early_ends.py      runs that cannot learn, schedules that end long before, actions at the end
synonyms.py        names that other libraries have for the keys
files.py           reads and writes configs in TOML
envs.py            makes the envs of a config

Imports: envs, rl_core.
"""
