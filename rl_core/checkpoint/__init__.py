"""Checkpoints on disk: whole or not at all, and never silently wrong.

checkpoints/<tick>/variables.safetensors   every variable but the replay's rows
checkpoints/<tick>/host.json               what Python knows
checkpoints/<tick>/manifest.json           size and digest of every file, and of itself
checkpoints/rows/<begin>-<end>.safetensors rows of the replay, each written once

Imports: rl_core.errors, rl_core.regular_file.
"""
