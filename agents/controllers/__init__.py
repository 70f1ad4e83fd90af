"""Controllers: functions that watch a run and change its live values.

run_view.py  RunView: what a controller sees
copies.py    two that copy the target, by the rules of agents.dqn.sync_rule
bandit.py    one that chooses the sync period by what episodes return
choice.py    the controller that a config names

Imports: agents.config, rl_core.
"""
