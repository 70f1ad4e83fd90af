"""Pages that are generated are up to date; what pages name is there; links lead somewhere."""

import ast
import functools
import json
import re
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from targetnet.agents.config import keys, synonyms
from targetnet.agents.config.keys import PAPERS
from targetnet.agents.config.live_values import as_markdown
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.network_keys import NETWORKS
from targetnet.agents.config.pbt import PbtKeys
from targetnet.rl_core.errors import ConfigError
from targetnet.rl_core.hyperparameters import ANY

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BUILT = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
PAGES = [ROOT / "README.md", *BUILT, *sorted(DOCS.rglob("*.md"))]
MAKEFILE = (ROOT / "Makefile").read_text()


def test_the_page_of_live_values_is_what_the_table_says():
    assert (DOCS / "reference" / "live_values.md").read_text() == as_markdown(), "run `make docs`"


def test_every_live_value_of_a_config_is_on_it():
    page = as_markdown()
    assert all(f"| `{k.name}` | {k.unit} | {k.bounds} |" in page for k in DqnConfig.knobs())


def test_the_values_that_people_change_most_stand_first():
    names = [cells[0].strip("`") for cells in rows(as_markdown())]
    assert names[:4] == ["sync_period", "tau", "learning_rate", "epsilon"]


def test_readme_counts_the_live_values():
    assert f"{len(list(DqnConfig.knobs()))} hyperparameters" in PAGES[0].read_text()


def test_the_page_of_keys_is_what_the_config_says():
    assert (DOCS / "reference" / "config.md").read_text() == keys.as_markdown(), "run `make docs`"


def test_the_page_of_other_libraries_is_what_the_table_says():
    page = (DOCS / "guides" / "from_other_libraries.md").read_text()
    assert page == synonyms.as_markdown(), "run `make docs`"


def test_every_key_of_a_config_is_on_it_once_with_its_meaning():
    cells = rows(keys.as_markdown())
    names = [row[0].split("`")[1] for row in cells]
    assert sorted(names) == sorted([*DqnConfig.model_fields, *PbtKeys.model_fields])
    assert all(row[1].strip() for row in cells)


def test_every_paper_is_the_source_of_keys():
    facts = [*DqnConfig.facts().values(), *PbtKeys.facts().values()]
    assert {paper for of in facts for paper in of.papers} == PAPERS.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_to_files_lead_to_files(page):
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    local = [target for target in targets if "://" not in target]
    assert all((page.parent / target).exists() for target in local), local


# What pages say of the source.


@functools.cache
def parsed(path):
    return ast.parse((ROOT / path).read_text())


def homes(path):
    """Name -> the file that defines it, of everything that a file defines or imports of ours."""
    found = {node.name: path for node in parsed(path).body if hasattr(node, "name")}
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and (home := file_of(node.module)):
            for name in node.names:
                # A room's first page only hands names on.
                over = homes(home) if home.endswith("__init__.py") else {}
                found[name.asname or name.name] = over.get(name.name, home)
    return found


def file_of(module):
    """The file of one of our modules, else None."""
    path = module.removeprefix("targetnet.").replace(".", "/")
    return next((f for f in (f"{path}.py", f"{path}/__init__.py") if (ROOT / f).exists()), None)


def defined_in(path):
    """Names that a file defines at the top; those of a class's body after the class and a dot."""
    for node in parsed(path).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (t.id for t in targets if isinstance(t, ast.Name))
        if name := getattr(node, "name", None):
            yield name
            if isinstance(node, ast.ClassDef):
                yield from (f"{name}.{of.name}" for of in node.body if hasattr(of, "name"))


def section(page, title):
    """The text below a heading, up to the next one."""
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)[1]


def rows(text):
    """Cells of all rows of the tables in a text, without their headings."""
    lines = [line.strip("| \n").split(" | ") for line in text.splitlines() if line.startswith("|")]
    tables = [i for i, cells in enumerate(lines) if set(cells[0]) <= {"-", "|"}]
    return [c for i, c in enumerate(lines) if i not in tables and i + 1 not in tables]


ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
TWINS = rows((DOCS / "explanation" / "twins.md").read_text())


@pytest.mark.parametrize("page", BUILT, ids=lambda path: path.name)
def test_files_that_a_page_names_are_there(page):
    named = re.findall(r"`((?:rl_core|envs|agents|tests|docs|configs)/[\w./]+)", page.read_text())
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


# "`NAME` in `FILE`", and "`FILE`: a line in `NAME`" or another few words before the name.
NAME_IN_FILE = r"`([A-Z][\w.]+)`\s+(?:in|of)\s+`([\w/]+\.py)`"
FILE_AND_NAME = r"`([\w/]+\.py)`: (?:[\w\s]+?\s)in\s+`([A-Z][\w.]+)`"


@pytest.mark.parametrize("page", BUILT, ids=lambda path: path.name)
def test_a_name_that_a_page_finds_in_a_file_is_there(page):
    text = page.read_text()
    named = [(path, name) for name, path in re.findall(NAME_IN_FILE, text)]
    named += re.findall(FILE_AND_NAME, text)
    assert named
    assert [pair for pair in named if pair[1] not in defined_in(pair[0])] == []


def test_the_seven_files_from_env_to_gradient_hand_on_to_each_other():
    """Each hands a class on: both files know it, and it is the same one."""
    path = rows(section(ARCHITECTURE, "From env to gradient"))
    files = [cells[1].strip("`") for cells in path]
    handed = [cells[3].strip("`") for cells in path[:-1]]
    assert len(files) == len(set(files)) <= 7
    for before, after, thing in zip(files, files[1:], handed, strict=False):
        assert homes(before).get(thing) == homes(after).get(thing) is not None, (before, thing)
        assert all(used(thing, path) for path in (before, after)), thing


def used(name, path):
    """Whether a file does more with a name than to import it."""
    return any(
        getattr(node, "id", getattr(node, "name", None)) == name
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Name | ast.ClassDef)
    )


@pytest.mark.parametrize("twin", TWINS, ids=lambda cells: cells[0])
def test_a_twin_and_the_test_that_ties_it_are_there(twin):
    places = re.findall(r"`(\S+\.py): ([\w.]+)`", " ".join(twin[1:3]))
    tests = re.findall(r"`(tests/\S+\.py)::(\w+)`", twin[3])
    assert places and tests
    for path, name in [*places, *tests]:
        assert name in defined_in(path), f"{path} has no {name}"


def test_all_twins_are_read():
    assert len(TWINS) > 25


def test_commands_of_make_that_a_page_names_are_in_the_makefile():
    for page in BUILT:
        for target in re.findall(r"`make ([\w-]+)`", page.read_text()):
            assert f"\n{target}: " in MAKEFILE, target


# The keys of a config: their defaults, values and papers.


class Row(NamedTuple):
    key: str
    meaning: str
    default: str
    unit: str = ""
    values: str = ""
    source: str = ""


KEYS = {row[0].split("`")[1]: Row(*row) for row in rows(keys.as_markdown())}
ROOMS = ("rl_core", "envs", "agents")
# Keys whose values are told in words, which another test cannot read.
WORDS = {name for model in (DqnConfig, PbtKeys) for name, of in model.facts().items() if of.values}


def test_the_defaults_on_the_page_of_keys_are_those_of_a_config_that_says_nothing():
    of_config, of_pbt = (
        "\n".join(
            f"{name} = {row.default.strip('`')}"
            for name, row in KEYS.items()
            if name in model.model_fields and row.default
        )
        for model in (DqnConfig, PbtKeys)
    )
    assert DqnConfig.model_validate(tomllib.loads(of_config)) == DqnConfig()
    assert PbtKeys(period=3, **tomllib.loads(of_pbt)) == PbtKeys(period=3)


def values_at_the_bounds(cell):
    """(taken, refused) values of a cell such as `in (0, 1]`, or a list of words."""
    if words := re.findall(r"`([^`]+)`", cell):
        return [json.loads(word) for word in words], []
    bounds = re.fullmatch(r"in ([\[(])(.+), (.+)([])])", cell)
    sides = [(bounds[1] == "[", bounds[2], -1), (bounds[4] == "]", bounds[3], 1)] if bounds else []
    if one := re.fullmatch(r"([<>])(=?) (.+)", cell):
        sides = [(one[2] == "=", one[3], -1 if one[1] == ">" else 1)]
    assert sides or cell == ANY, cell
    at = [(float(number), closed) for closed, number, _ in sides]
    beyond = [float(number) + out for _, number, out in sides]
    return [b for b, closed in at if closed], [b for b, closed in at if not closed] + beyond


# What a value of a key needs beside it.
NEEDED = {
    "hl_gauss": {"head": "categorical"},
    "bfloat16": {"network": "nature", "onednn": True},
}


def test_only_a_number_may_be_any_number_and_no_cell_is_cut():
    models = {n: m for m in (PbtKeys, DqnConfig) for n in m.model_fields}
    live = {knob.name for knob in DqnConfig.knobs()}
    free = {name for name, row in KEYS.items() if row.values == ANY} - live
    assert {models[name].model_fields[name].annotation for name in free} <= {int, float}
    assert not [row for row in KEYS.values() if any("|" in cell for cell in row)]


@pytest.mark.parametrize("name", sorted(KEYS.keys() - WORDS))
def test_the_values_of_a_key_on_the_page_are_those_that_a_config_takes(name):
    taken, refused = values_at_the_bounds(KEYS[name].values)
    model, more = (DqnConfig, {}) if name in DqnConfig.model_fields else (PbtKeys, {"period": 3})
    field = model.model_fields[name]
    whole = field.annotation is int or type(field.default) is int
    for value in taken:
        given = more | {name: int(value) if whole else value} | NEEDED.get(value, {})
        assert getattr(model(**given), name) == value
    for value in refused:
        with pytest.raises(ConfigError):
            model(**more | {name: int(value) if whole else value})


def test_the_layers_that_a_network_brings_are_told_with_its_name():
    told = re.findall(r"(\d+) with (\w+)", KEYS["hidden"].meaning)
    brought = {n: DqnConfig(network=n).hidden for n in NETWORKS if n != DqnConfig().network}
    assert {name: (int(units),) for units, name in told} == brought


def test_the_table_of_the_family_names_the_paper_of_each_key():
    checked = 0
    for setting, meaning, *_ in rows((DOCS / "explanation" / "family.md").read_text()):
        key = re.match(r"`(\w+)", setting)[1]
        addresses = {PAPERS[name] for name in DqnConfig.facts()[key].papers}
        for address in re.findall(r"\]\((https://[^)]+)\)", meaning):
            checked += 1
            assert address in addresses, setting
    assert checked > 8


# "Watkins & Dayan (1992), https://...", "Mnih et al. 2015](https://...)"; the first author's name.
PAPER = re.compile(
    r"([A-Z]\w+)(?:, [A-Z]\w+)*(?: et al\.| & [A-Z]\w+)?,? \(?((?:19|20)\d\db?)\)?"
    r"(?:, |\]\(|\": \")"
    r"(https://(?:(?:arxiv|doi)\.org/\w[\w./]*\w|openreview\.net/forum\?id=\w+))"
)


def test_a_paper_has_one_address_on_all_pages_and_in_all_docstrings():
    files = [*PAGES, *(f for room in ROOMS for f in (ROOT / room).rglob("*.py"))]
    addresses = defaultdict(set)
    for file in files:
        for author, year, address in PAPER.findall(re.sub(r"\s+", " ", file.read_text())):
            addresses[author, year].add(address)
    assert {*PAPERS.values()} <= set().union(*addresses.values())
    assert [paper for paper in addresses.items() if len(paper[1]) > 1] == []
