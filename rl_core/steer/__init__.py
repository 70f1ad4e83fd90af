"""The Steer tab: a TensorBoard plugin that shows a running job's live values and sets them.

    entry.py    what TensorBoard loads; never the reason that it does not start
    plugin.py   the routes
    guard.py    who may read and write: Host, Origin, token
    runs.py     the runs below the log directory
    static/     the page: plain modules, no build step

The page talks to the job as everyone does: through the files of `rl_core.control`.

Imports: rl_core.control, rl_core.errors, rl_core.regular_file.
"""
