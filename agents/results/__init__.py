"""Measured learning results: many seeds, a peer beside them, one page of numbers and curves.

`targetnet results` trains in child processes and never imports TensorFlow itself.

Imports: nothing.
"""
