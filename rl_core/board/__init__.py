"""TensorBoard for a run directory, started quickly: without TensorFlow.

Imports: rl_core.errors. Nothing else of ours, so a board costs neither the graph nor the loop.
"""
