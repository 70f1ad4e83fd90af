"""Datasets of Minari, written from runs.

minari_files.py   a dataset's files, as Minari writes them; all that imports Minari
episodes.py       episodes that a policy plays, and those that a replay memory holds
record.py         records a run as a dataset

Imports: agents.config, agents.dqn.exploring, agents.loops.evaluation, agents.policy, agents.saved,
envs, rl_core.
"""
