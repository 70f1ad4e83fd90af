"""TensorBoard for a run directory, started quickly: without TensorFlow.

Imports: rl_core.errors.
"""
