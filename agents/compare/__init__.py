"""Comparisons: arms that differ in some keys, on several envs, by paired seeds.

plan.py         the file of a comparison: envs, groups of arms, seeds, sections of the page
kept.py         finished seeds as JSON files, one for each arm on an env
populations.py  the jobs that train what is missing, as populations
scores.py       areas under curves, the best of a group, paired differences
page.py         the page; pictures.py draws its curves
verify.py       one seed trained again, alone, and its digest compared
command.py      `targetnet compare`

Imports: agents.config, agents.results, agents.saved, rl_core.control, rl_core.errors.
"""
