"""Sweeps: search of hyperparameters that reproduces.

space.py        the keys that are searched, and the config of a trial
plan.py         all that decides a sweep's trials
study.py        what was tried and what to try next, by Optuna; journal.py is its file
trial.py        a trial's runs, curve and score; the trials of one process
trials.py       trains all groups in an order that makes no difference
fresh_seeds.py  the best again, with seeds that chose nothing
page.py         the page and its pictures
command.py      `targetnet sweep`

Imports: agents.config, agents.experiments, agents.saved, rl_core.console, rl_core.control,
rl_core.errors, rl_core.extras, rl_core.files, rl_core.hyperparameters, rl_core.seal.
"""
