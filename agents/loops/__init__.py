"""The loops that step envs and let an agent learn, and greedy evaluation.

plain.py       the plain loop: store, act, learn, step in turn; Tick, LoopState, LearnClock; offline
concurrent.py  the concurrent loop: one thread steps the envs, another makes the updates
compiled.py    the compiled loop: one call into the graph makes many time steps
choice.py      the loop of a config
evaluation.py  evaluation on separate envs, greedy by default

Imports: agents.config, agents.dqn, envs, rl_core.arguments,
rl_core.epsilon_greedy_numpy, rl_core.errors, rl_core.hyperparameters, rl_core.philox,
rl_core.replay, rl_core.schedules.
"""
