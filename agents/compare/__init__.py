"""Comparisons: arms that differ in some keys, on several envs, by paired seeds.

plan.py         the file of a comparison: envs, groups of arms, seeds, sections of the page
arm_results.py  finished seeds as JSON files, one for each arm on an env
populations.py  the jobs that train what is missing, as populations
areas.py        scores of one run: areas under its greedy curve, its final return
choices.py      the arms that tuning seeds choose, and how firmly
scores.py       scores of arms on fresh seeds, and their differences
page.py         the page; tables.py makes its tables, pictures.py draws its curves
verify.py       one seed trained again, alone, and its digest compared
command.py      `targetnet compare`

Imports: agents.config, agents.results, agents.saved, rl_core.console, rl_core.control,
rl_core.errors, rl_core.files, rl_core.seal.
"""
