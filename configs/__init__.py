"""Shipped configurations: data, found by name with `importlib.resources`."""
