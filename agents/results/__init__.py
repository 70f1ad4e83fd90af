"""Learning results: trains many seeds, compares with a peer, writes a page of numbers and curves.

`targetnet results` trains in child processes and never imports TensorFlow itself.

Imports: agents.config, agents.run, agents.saved, rl_core.control, rl_core.errors, rl_core.machine,
rl_core.regular_file, rl_core.seal.
"""
