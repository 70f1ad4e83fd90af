"""Sweeps: search of hyperparameters that reproduces.

space.py        the keys that are searched, and the config of a trial
plan.py         all that decides a sweep's trials
study.py        what was tried and what to try next, by Optuna; journal.py is its file
trial.py        a trial's runs, curve and score
groups.py       the trials of one process, as a run or a population
trials.py       trains all groups in an order that makes no difference
fresh_seeds.py  the best again, with seeds that chose nothing
verify.py       the winner again, with its own seeds
page.py         the page; pictures.py draws what it shows
command.py      `targetnet sweep`

Imports: agents.cluster, agents.config, agents.results, agents.saved, rl_core.console,
rl_core.control, rl_core.errors, rl_core.extras, rl_core.hyperparameters, rl_core.files,
rl_core.seal.
"""
