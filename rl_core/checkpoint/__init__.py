"""Checkpoints on disk: a checkpoint is complete or absent, and damage is always noticed.

checkpoints/<number>/variables.safetensors   all variables but the replay's rows and derived ones
checkpoints/<number>/host.json               the Python state
checkpoints/<number>/manifest.json           size and digest of every file, and its own digest
checkpoints/rows/<begin>-<end>.safetensors   rows of the replay; each row is written once

store.py         writes, reads and prunes them
weights_file.py  a network's weights as one file

Imports: rl_core.arguments, rl_core.errors, rl_core.files.
"""
