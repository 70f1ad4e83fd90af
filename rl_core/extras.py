"""Packages that only an extra of targetnet installs."""

from __future__ import annotations

import importlib.util

from targetnet.rl_core.errors import RlCoreError


def require_package(
    module: str, wants: str, extra: str, error: type[RlCoreError] = RlCoreError
) -> None:
    """Checks that a package is installed.

    Args:
      module: of the package, as it is imported.
      wants: who needs which package, such as "a sweep needs Optuna".
      extra: of targetnet, which installs it.
      error: class of what is raised.

    Raises:
      RlCoreError: it is not installed; the message says how to install it.
    """
    if importlib.util.find_spec(module) is None:
        raise error(f"{wants}: pip install 'targetnet[{extra}]'")
