"""Optimizers: from gradients to new weights.

adam.py             Adam with a slot for each variable
packed_adam.py      Adam in loops, with one tensor for each block
freeze.py           apply operations by block
freeze_schedule.py  sets of blocks that are left alone, and for how long
fused.py            many updates in one compiled call
joint.py            an update of each of several members in one compiled call
phase.py            a learning phase, split into the fastest calls

Imports: rl_core.errors, rl_core.graph.
"""
