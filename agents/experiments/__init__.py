"""Experiments: many runs, statistics over their seeds, and a page of numbers and pictures.

Runs are trained in child processes, here or on a cluster; no command imports TensorFlow itself.

results/         `targetnet results`: many seeds of some configs, beside a peer
compare/         `targetnet compare`: arms that differ in some keys, on several envs, by pairs
sweep/           `targetnet sweep`: search of hyperparameters that reproduces
jobs.py          many processes, a few at a time, and their progress on the screen
places.py        where they run: here, or on the nodes of a cluster; and how many at once
training_job.py  a job of `targetnet train`: a run, or a population
store.py         finished runs in a file of JSON lines
statistics.py    the interquartile mean, bootstrap and Student's intervals, several tests at once
report.py        parts of any page: Markdown, pictures, the command that made it
verify.py        trains runs again, and compares the digests of their ends
options.py       checks of options

Imports: agents.cluster, agents.config, agents.run, agents.saved, rl_core.board, rl_core.console,
rl_core.control, rl_core.errors, rl_core.extras, rl_core.files, rl_core.hyperparameters,
rl_core.machine, rl_core.seal.
"""
