"""Docstrings: what they may not begin with, and who must have one. Ruff checks their form."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("rl_core", "envs", "agents")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
# A docstring that begins with one of these has to be read twice; a verb or a noun says it at once.
REFUSED = {"What", "Of", "As", "Whether", "How", "Those", "That", "Who", "Where", "When", "If"}
REFUSED |= {"It", "For", "By"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yields (line, docstring) of a module and of everything in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


def refused(source: str) -> list[str]:
    """Returns "line: first line" of each docstring that begins with a refused word."""
    return [
        f"{line}: {text.splitlines()[0]}"
        for line, text in docstrings(source)
        if text.split()[0].strip("`'\".,:;") in REFUSED
    ]


def undocumented(name: str, public: Any) -> Iterator[str]:
    """Yields a public object and its public methods, as far as they have no docstring.

    A method may inherit its docstring.
    """
    if not inspect.isclass(public):
        if inspect.isfunction(public) and not inspect.getdoc(public):
            yield name
        return
    if not public.__dict__.get("__doc__"):
        yield name
    for attribute, value in vars(public).items():
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        public_method = inspect.isfunction(function) and not attribute.startswith("_")
        if public_method and not inspect.getdoc(getattr(public, attribute)):
            yield f"{name}.{attribute}"


def test_no_docstring_begins_with_a_word_that_hides_its_subject():
    read = {path: refused(path.read_text()) for path in FILES}
    assert len(read) > 100
    assert {str(path.relative_to(ROOT)): found for path, found in read.items() if found} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_and_its_public_methods_have_a_docstring(package):
    module = importlib.import_module(f"targetnet.{package}")
    public = {name: getattr(module, name) for name in module.__all__}
    assert len(public) > 5
    assert [f for name, value in public.items() for f in undocumented(name, value)] == []


def test_a_refused_word_is_found_in_private_functions_too_and_only_as_a_whole_word():
    source = '''
"""Module."""
class A:
    """Of a thing."""
    def f(self):
        """Returns it."""
    def _g(self):
        """What: a thing."""
    def h(self):
        """Whatever it is, is given."""
'''
    assert [line.split(":")[0] for line in refused(source)] == ["3", "7"]


class Base:
    """A base."""

    def told(self):
        """Tells."""


class Public(Base):
    """A class."""

    def told(self):
        pass

    def mute(self):
        pass

    @property
    def silent(self):
        pass

    @classmethod
    def still(cls):
        pass

    def _private(self):
        pass


class Bare(Base):
    pass


def test_methods_may_inherit_their_docstring_and_classes_may_not():
    assert list(undocumented("P", Public)) == ["P.mute", "P.silent", "P.still"]
    assert list(undocumented("B", Bare)) == ["B"]
    assert list(undocumented("f", lambda: None)) == ["f"]
