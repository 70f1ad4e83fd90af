"""Datasets of Minari, written from runs, and learned from.

metadata.py      the metadata of somebody's dataset, checked; nothing that they name is imported
hdf5.py          the episodes of somebody's dataset, from its one file alone
minari_files.py  a dataset's files, as Minari writes and reads them
episodes.py      episodes that a policy plays, and those that a replay memory holds
record.py        records a run as a dataset
rows.py          a dataset's steps as rows of a replay memory, for several envs
run_dataset.py   what a run takes from the dataset that it learns from

Imports: agents.config, agents.dqn, agents.loops.evaluation, agents.policy, agents.saved, envs,
rl_core.
"""
