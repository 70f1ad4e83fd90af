"""The loops that step envs and let an agent learn, and greedy evaluation.

plain.py        act, step, store, learn: one after the other; Tick, LoopState, LearnClock
concurrent.py   the envs are stepped while the updates of the phase before are made
compiled.py     chunks of many time steps, each one call into the graph
choice.py       the loop that a config names
evaluation.py   greedy episodes on envs of their own

Imports: agents.config, agents.dqn, envs, rl_core.errors.
"""
