"""Mechanics of the TensorFlow graph, without reinforcement learning.

engine.py              one graph, one session, and fast calls into it
feeds.py               checks of what calls are fed
scopes.py              variables by scope, the getter that stops gradients, an agent's root
sync.py                copies between scopes
snapshots.py           a ring of copies of many variables, to rewind to
large.py               variables that are read and written by rows, in place
variable_overrides.py  tensors in the place of variables, while something is built
members.py             several agents that take turns on one graph's variables
weights.py             variables as arrays
tf1.py                 a ring of a scope's copies, and TensorFlow's checkpoint files
picture.py             a graph for people, under tidy names
layers.py              layers by get_variable
finite.py              refusal of an update that is not finite
xla.py                 arithmetic in a form that XLA compiles well
xla_cache.py           what XLA compiled, for the next process
packing.py             small tensors of one kind as one, for compiled loops

Imports: rl_core.arguments, rl_core.errors, rl_core.lazy, rl_core.machine,
rl_core.own_gradient, rl_core.random, rl_core.files.
"""
