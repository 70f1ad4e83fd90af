"""Checkpoints on disk: a checkpoint is complete or absent, and damage is always noticed.

checkpoints/<number>/variables.safetensors   all variables but derived ones; the newest row
checkpoints/<number>/host.json               the Python state
checkpoints/<number>/manifest.json           size and digest of every file, and its own digest
checkpoints/rows/<begin>-<end>.safetensors   the other rows; each is written once

store.py         writes, reads and prunes them
weights_file.py  a network's weights as one file

Imports: rl_core.arguments, rl_core.errors, rl_core.files.
"""
