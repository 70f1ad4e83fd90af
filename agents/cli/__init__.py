"""The `targetnet` command.

main.py             parses the arguments, runs one command, turns errors into exit codes
mistakes.py         one line about a mistake on the command line
train_commands.py   train, resume, configs, board
steer_commands.py   set, do, status, log, ls, digest, replay
policy_commands.py  eval, play, export
data_commands.py    record
mcp_command.py      mcp
assistant.py        the tools of mcp, without the package
config_list.py      the list of the shipped configs
run_tables.py       finds runs and shows them as tables
members_table.py    the table of a population's members at its end

Imports: agents.config, agents.data, agents.loops, agents.policy, agents.population,
agents.run, agents.saved, rl_core.board, rl_core.console, rl_core.control,
rl_core.errors, rl_core.extras, rl_core.hyperparameters, rl_core.own_function, rl_core.search_path.
"""

INTERRUPTED = 130  # exit code after Ctrl-C, as shells have it
