"""Optimizers: from gradients to new weights.

adam.py         Adam with a slot for each variable
packed_adam.py  Adam in loops, with one tensor for each block
freeze.py       apply operations by block, and sets of blocks that are left alone
calls.py        the calls that make a phase of updates

Imports: rl_core.errors, rl_core.graph.
"""
