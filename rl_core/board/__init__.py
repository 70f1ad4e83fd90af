"""Quick start of TensorBoard for a run directory, without TensorFlow.

Imports: rl_core.errors.
"""
