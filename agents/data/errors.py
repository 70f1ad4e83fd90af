"""Errors of datasets."""

from targetnet.rl_core.errors import RlCoreError


class DataError(RlCoreError, OSError):
    """A dataset that cannot be written or read."""


class UnsafeData(Exception):
    """Something in a dataset's files that is not read; `Dataset` adds which dataset it is."""
