"""Steering a running job through files: an inbox anyone allowed may write, a log and a state.

    control/inbox/<time>-<id>.json   one command each, put there whole by renaming
    control/log.jsonl                every command, taken or refused, appended by the run alone
    control/state.json               what the run is doing, as of a second ago at most
    control/trace.bin                a checksum per time step, for finding where a repeat differs
    control/token                    the secret for steering from another machine's browser
    control/lock                     held while the run is alive

`Steering` is the run's side, `RunClient` the other one. No port is opened.

Imports: rl_core.errors, rl_core.hyperparameters, rl_core.regular_file.
"""
