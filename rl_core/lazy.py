"""Flat public names that are imported on first use (PEP 562).

Imports: nothing of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, names_of: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` for a package's `__init__`.

    Args:
      package: its `__name__`.
      names_of: submodule -> the names it gives, separated by blanks.
    """
    module_of = {name: module for module, names in names_of.items() for name in names.split()}
    public = sorted(module_of)

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return public, get, lambda: public
