"""TensorFlow's API with names that are imported when somebody asks for them.

`import tensorflow` imports 2,400 modules. Half of them belong to parts of the API that a run does
not touch, such as distribution strategies, feature columns and TPUs. The packages of the API are
generated, and contain imports, and a wrapper that does nothing: so they can be read instead of
run, and each name costs no more than the module that defines it.

`importlib.util.LazyLoader` does not serve: it runs the whole of a package for its first name, and
refuses those in whose place TensorFlow puts a wrapper.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_API = "tensorflow._api.v2"
# Python looks for these while it imports a package, before it sets them.
_OF_PYTHON = ("__path__", "__file__", "__cached__")


def import_names_lazily() -> None:
    """From here on the packages of TensorFlow's API wait; call it before TensorFlow is imported."""
    sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds the packages of the API, and loads a stand-in for each."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(f"{_API}.") or _more_than_imports(name):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader = _StandInLoader()
        return spec


def _more_than_imports(package: str) -> bool:
    return package == f"{_API}.compat" or package.endswith((".v1", ".v2"))


class _StandInLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: nobody has asked for a name yet."""


class _StandIn(ModuleType):
    """Has the names of a package of the API."""

    def __getattr__(self, name: str) -> Any:
        place = None if name in _OF_PYTHON else _places(str(self.__file__)).get(name)
        if place is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, there = place
        if module.startswith(_API):
            value: Any = import_module(f"{module}.{there}")
        else:
            value = getattr(import_module(module), there)
            # `tensorflow.lite.python` brings the package `tensorflow/lite`, and Python puts it in
            # the place of `tf.lite`.
            top, of_top = sys.modules["tensorflow"], self.__name__.removeprefix(f"{_API}.")
            package = sys.modules.get(f"tensorflow.{of_top}")
            if package is not None and vars(top).get(of_top) is package:
                setattr(top, of_top, self)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return [*{**vars(self), **_places(str(self.__file__))}]


@functools.cache
def _places(file: str) -> dict[str, tuple[str, str]]:
    """Returns module and name of what each name of a package stands for."""
    lines = ast.parse(Path(file).read_bytes()).body
    imports = [line for line in lines if isinstance(line, ast.ImportFrom)]
    return {
        name.asname or name.name: (str(line.module), name.name)
        for line in imports
        for name in line.names
    }
