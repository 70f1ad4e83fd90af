"""The docs site: every page is in it, every public name, no broken link, nothing from the net."""

import json
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import targetnet

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MARKDOWN = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
INDEX = (DOCS / "index.rst").read_text()


def test_every_page_is_in_the_index_once():
    pages = [page for kind in ("*/*.md", "*/*.ipynb", "*/api/*.rst") for page in DOCS.glob(kind)]
    wanted = [str(page.relative_to(DOCS).with_suffix("")) for page in pages]
    wanted += [f"/{page.stem}" for page in ROOT.glob("*.md")]
    entries = re.findall(r"^   (?!:)(?:.*<)?([\w/]+)>?$", INDEX, re.MULTILINE)
    assert Counter(entries) == Counter(wanted)


def test_the_reference_has_every_public_name_once():
    pages = "".join(page.read_text() for page in DOCS.glob("reference/api/*.rst"))
    names = re.findall(r"^\.\. (?:auto|py:)\w+:: targetnet\.(\w+)", pages, re.MULTILINE)
    assert Counter(names) == Counter(targetnet.__all__)


@pytest.mark.parametrize("notebook", [*DOCS.rglob("*.ipynb")], ids=lambda path: path.name)
def test_a_notebook_is_committed_without_what_it_printed(notebook):
    """The site is built with what it prints then."""
    cells = json.loads(notebook.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 3
    assert all((cell["outputs"], cell["execution_count"]) == ([], None) for cell in code)


# Links of the Markdown pages, as GitHub follows them.


def anchors(page):
    """The anchors that GitHub makes of a page's headings."""
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text())
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda path: path.name)
def test_a_link_to_a_heading_leads_to_one(page):
    for target, anchor in re.findall(r"\]\(([\w./]*)#([^)]+)\)", page.read_text()):
        assert anchor in anchors(page.parent / target if target else page), (target, anchor)


# The built site.


LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class Page(HTMLParser):
    """The addresses that an HTML page loads, those that it links to, and its anchors."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.links, self.anchors = [], [], {""}
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.add(attributes.get("id"))
        if LOADED.get(tag) in attributes:
            self.loads.append(attributes[LOADED[tag]])
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])


def from_the_net(texts):
    """What pages and style sheets load from elsewhere, of name -> text or `Page`."""
    for name, text in texts.items():
        loads = text.loads if isinstance(text, Page) else re.findall(r"url\(['\"]?([^)]*)", text)
        yield from (f"{name}: {address}" for address in loads if re.match(r"(https?:)?//", address))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    missing = [name for name in ("sphinx", "furo", "myst_nb") if find_spec(name) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed: `make site` installs the extra docs")
    out = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", "."]
    done = subprocess.run([*build, str(out)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow  # it trains in a notebook
@pytest.mark.timeout(600)
def test_the_site_is_built_without_a_warning_and_its_links_lead_somewhere(site):
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    assert len(pages) > 30
    broken = []
    for path, page in pages.items():
        for address in page.links:
            parts = urlsplit(address)
            if parts.scheme:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages[there].anchors if there in pages else {""}
            if not there.exists() or unquote(parts.fragment) not in known:
                broken.append(f"{path.relative_to(site)}: {address}")
    assert broken == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_page_of_the_site_loads_anything_from_the_net(site):
    texts = {p.name: Page(p) for p in site.rglob("*.html")}
    texts |= {p.name: p.read_text() for p in site.rglob("*.css")}
    assert list(from_the_net(texts)) == []


def test_what_is_loaded_from_the_net_is_found(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<script src="https://cdn/x.js"></script><img src="x.png"><a href="//y">')
    texts = {"page": Page(page), "style": "a { src: url('//cdn/f.woff') } b { src: url(f.woff) }"}
    assert list(from_the_net(texts)) == ["page: https://cdn/x.js", "style: //cdn/f.woff'"]
