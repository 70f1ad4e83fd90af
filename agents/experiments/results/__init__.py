"""Learning results: trains many seeds, compares with a peer, writes a page of numbers and curves.

command.py     `targetnet results`
seeds.py       the seeds of a config and of a peer, and the jobs that train them
peer.py        Stable-Baselines3 as a peer, in an environment of its own
sb3_worker.py  what a process of the peer runs; it imports nothing of ours
table.py       the numbers of the page
page.py        the page and its pictures

Imports: agents.cluster, agents.config, agents.experiments, agents.saved, rl_core.console,
rl_core.control, rl_core.errors, rl_core.files, rl_core.hyperparameters, rl_core.machine.
"""
