"""The Steer tab: a TensorBoard plugin that shows a running job's live values and sets them.

    entry.py    entry point for TensorBoard; its failure never stops TensorBoard
    plugin.py   the routes
    guard.py    access checks: Host, Origin, token, the other end's user
    runs.py     the runs below the log directory, and the members of a population
    changes.py  entries of a run's log, and commands that no run has read yet
    curves.py   curves out of TensorBoard's memory
    static/     the page: plain JavaScript modules without a build step

The plugin talks to the job through the files of `targetnet.rl_core.control`, like every other
client.
"""
