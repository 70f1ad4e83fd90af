"""Steering of a running job through files. No port is opened.

    control/inbox/<time>-<id>.json   one command per file, moved there complete by renaming
    control/log.jsonl                every command, taken or refused; only the run appends to it
    control/state.json               state of the run, at most a second old
    control/trace.bin                a checksum per time step, to find where a repeat differs
    control/arrivals.bin             the order in which deliveries of free-running actors came
    control/token                    the secret for steering from another machine's browser
    control/lock                     locked while the run is alive
    control/moved                    on a node only: since which entry orders stand

files.py          the paths of these, and the lock
commands.py       what a command is, and the arguments of actions on the weights
inbox.py          reads the inbox for the run
changes.py        changes, carried out or refused
timetable.py      changes that are known beforehand, and orders that still hold
log_writer.py     answers on their way into the log
steering.py       applies commands at safe points
log.py, state.py  these files; records.py: trace and arrivals
client.py         a client of one run, and of many
population.py     a population's directory, and who copied whom

The run uses `Steering`; every other process uses `RunClient`, and `begin_all` for many runs.

Imports: rl_core.arguments, rl_core.errors, rl_core.hyperparameters, rl_core.files,
rl_core.schedules, rl_core.seal, rl_core.validation.
"""
