"""The Steer tab: a TensorBoard plugin that shows a running job's live values and sets them.

    entry.py    entry point for TensorBoard; its failure never stops TensorBoard
    plugin.py   the routes
    guard.py    access checks: Host, Origin, token
    runs.py     the runs below the log directory
    members.py  all members of a population: progress, and their live values in one
    unread_commands.py     commands that no run has read yet
    peer.py     whose program is at the other end of a connection
    changes.py  entries of a run's log, each with its shell command
    curves.py   curves out of TensorBoard's memory
    static/     the page: plain JavaScript modules without a build step

The plugin talks to the job through the files of `targetnet.rl_core.control`, like every other
client.
"""
