"""Comparisons: arms that differ in some keys, on several envs, by paired seeds.

plan.py             the file of a comparison: envs, groups of arms, seeds, sections of the page
arms.py             the finished runs of each arm, and the scores of one run
population_jobs.py  the jobs that train what is missing, as populations
choices.py          the arms that tuning seeds choose, and how firmly
scores.py           scores of arms on fresh seeds, and their differences
page.py             the page and its pictures; tables.py makes its tables
command.py          `targetnet compare`

Imports: agents.config, agents.experiments, agents.saved, rl_core.console, rl_core.control,
rl_core.errors, rl_core.files.
"""
