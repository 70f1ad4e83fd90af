"""Graph core for target-network agents: scopes, syncs, freezing, replay, losses.

Public names are re-exported here flat and loaded on first use, because what runs without
TensorFlow (the board, `targetnet set`, `--help`) imports submodules of this package too and
must not pay TensorFlow's import of several seconds.
"""
