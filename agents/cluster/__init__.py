"""Other machines: a Ray cluster that this process joins, and the nodes that may be used there.

connect.py   joins a cluster in bounded time and without Ray's own output
probe.py     tries that in a process of its own
nodes.py     the nodes, and whether they have the versions of this machine

Ray is imported on first use only: it is an extra.

Imports: rl_core.errors, rl_core.machine.
"""
