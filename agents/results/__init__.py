"""Learning results: trains many seeds, compares with a peer, writes a page of numbers and curves.

`targetnet results` trains in child processes and never imports TensorFlow itself.

command.py        the command
command_parts.py  what it has in common with the commands of compare and sweep
seeds.py          the seeds of a config and of a peer, and the jobs that train them
peer.py           Stable-Baselines3 as a peer, in an environment of its own
jobs.py           many processes, a few at a time
jobs_display.py   their progress on the screen
places.py         where they run: here, or on the nodes of a cluster
choice.py         chooses the place, and how many at once
scores.py         scores of one finished seed, and of a row of seeds
curves.py         a run's curves, read without TensorFlow
seed_files.py     finished seeds as files
statistics.py     the interquartile mean, bootstrap intervals
differences.py    Student's intervals of means and differences; several tests at once
table.py          the numbers of the page
pictures.py       curves of all agents on one env
page.py           the page; markdown.py, parts of any page in Markdown
verify.py         trains runs again, and compares the digests of their ends

Imports: agents.cluster, agents.config, agents.run, agents.saved, rl_core.console, rl_core.control,
rl_core.errors, rl_core.extras, rl_core.hyperparameters, rl_core.machine, rl_core.files,
rl_core.seal.
"""
