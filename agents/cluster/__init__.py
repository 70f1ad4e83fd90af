"""Other machines: a Ray cluster that this process joins, and jobs that run on its nodes.

connect.py             joins a cluster in bounded time, without Ray's output
nodes.py               the nodes: their versions, those that join later, those without a fault
remote_job.py          the cluster as a place for jobs; one job, on one node after the other
remote_job_session.py  that job on one node: its actor, followed, its files brought home
worker.py              the job on the node: its process, its files, its scratch directory
local_mirror.py        the job's directory at home, which can always go on; its runs
tree.py                the files that travel, by their names; those of a command
process.py             child processes that end with their parent

Ray is imported on first use only: it is an extra. Ray's own transport pickles what home and a node
say to each other; no file is made of that but of bytes, and nothing pickled is kept.

Imports: agents.saved, rl_core.checkpoint, rl_core.control, rl_core.errors, rl_core.extras,
rl_core.machine, rl_core.own_function, rl_core.files.
"""
