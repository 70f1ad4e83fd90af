"""The `targetnet` command.

main.py              parses the arguments, and ends every command in one way
train_commands.py    train, resume, configs, board
steer_commands.py    set, do, status, log, ls, digest, replay
policy_commands.py   eval, play, export
run_tables.py        runs as tables

Imports: agents.config, agents.loops, agents.policy, agents.results, agents.run, rl_core.board,
rl_core.control, rl_core.errors, rl_core.hyperparameters.
"""
