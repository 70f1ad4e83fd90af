"""Docstrings and names: what they may not begin or end with. Ruff checks the form of docstrings."""

import ast
import importlib
import inspect
import re
from collections import Counter
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
# Nouns and adjectives that end like a participle or an adverb.
NOUNS = {
    "acting",
    "batching",
    "branching",
    "hidden",
    "listing",
    "markdown",
    "masking",
    "need",
    "packing",
}
NOUNS |= {"recording", "rescaling", "ring", "seed", "seeding", "speed", "steering"}
NOUNS |= {"compiled", "fused", "prioritized"}  # kinds of loops, calls and replay
PARTICIPLE = re.compile(r".+(ing|ed|wn|ly)$")
ADVERBS = {"again", "alone", "back", "before", "built", "here", "kept", "made", "seen", "sent"}
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


def classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                yield path, node


def is_no_noun(name: str) -> bool:
    """Says whether a class or a module is called by something else than a noun.

    Going, Kept and Alone cannot be looked up in any paper, and say nothing about what they are.
    """
    *_, last = re.findall(r"[A-Z][a-z0-9]+|[a-z0-9]+|[A-Z]+", name)
    word = last.lower()
    return word not in NOUNS and (word in ADVERBS or PARTICIPLE.match(word) is not None)


def test_classes_and_modules_are_called_by_nouns():
    # An error says what happened: Refused, Diverged.
    errors = ("Error", "Exception", "Fault", "Interrupt", "Failed", "Lost")
    named = {
        node.name
        for _, node in classes()
        if not any(ast.unparse(base).endswith(errors) for base in node.bases)
    }
    assert len(named) > 300
    assert {name for name in named | {path.stem for path in FILES} if is_no_noun(name)} == set()


def test_no_two_classes_have_one_name():
    names = Counter(node.name for _, node in classes())
    assert [name for name, times in names.items() if times > 1] == []


def test_a_participle_or_an_adverb_is_found_at_the_end_of_a_name():
    refused = "Going", "_Seated", "joining", "going_back", "Alone", "CopiesDrawn"
    assert [name for name in refused if not is_no_noun(name)] == []
    allowed = "Ring", "Steering", "RunListing", "update_batching", "BackupStore"
    assert [name for name in allowed if is_no_noun(name)] == []


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
