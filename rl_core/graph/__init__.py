"""Graph mechanics, nothing of reinforcement learning.

engine.py      one graph, one session, and the fast way to call into it
scopes.py      variables by scope, and the getter that guards them from gradients
sync.py        copies between scopes
past.py        a ring of copies of a scope
snapshots.py   many variables at once, to go back to
weights.py     variables as arrays
layers.py      layers by get_variable
finite.py      noticing what is not finite before it is kept
xla.py         the same arithmetic where XLA compiles it

Imports: rl_core.errors, rl_core.lazy, rl_core.random.
"""
