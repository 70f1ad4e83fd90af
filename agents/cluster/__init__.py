"""Other machines: a Ray cluster that this process joins, and jobs that run on its nodes.

connect.py   joins a cluster in bounded time and without Ray's own output; probe.py tries it
nodes.py     the nodes, and whether they have the versions of this machine
checked.py   the nodes with these versions, also of those that join later
usable.py    the nodes in which no job has found a fault
cluster.py   the cluster as a place for jobs
errand.py    one job, on one node after the other if nodes die or have faults
visit.py     that job on one node: brought there, followed, its files brought home
actor.py     the job's actor, asked from home
worker.py    the job on the node; scratch.py, where it is; node_files.py, its files as they are read
home.py      the job's directory at home, at every moment one that can go on; home_runs.py, its runs
messages.py  what home and a node say to each other
tree.py      the files that travel, by their names
portable.py  what a command needs to run elsewhere
process.py   child processes that end with their parent

Ray is imported on first use only: it is an extra. Ray's own transport pickles what home and a node
say to each other; no file is made of that but of bytes, and nothing pickled is kept.

Imports: agents.saved, rl_core.checkpoint, rl_core.control, rl_core.errors, rl_core.extras,
rl_core.machine, rl_core.own_function, rl_core.regular_file.
"""
