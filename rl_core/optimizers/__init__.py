"""Optimizers: from gradients to new weights.

adam.py         Adam and other optimizers, with slots for each variable
packed_adam.py  the same in loops, with one tensor for each block
freeze.py       apply operations by block, and sets of blocks that are left alone
calls.py        the calls that make a phase of updates

Imports: rl_core.errors, rl_core.graph.
"""
