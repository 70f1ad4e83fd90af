"""Pages that are generated are up to date; links between pages lead somewhere."""

import re
from pathlib import Path

import pytest

from agents.config.live_values import as_markdown

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_page_of_live_values_is_what_the_table_says():
    assert (ROOT / "docs" / "live.md").read_text() == as_markdown(), "run `make docs`"


def test_every_live_value_of_a_config_is_on_it():
    from agents.config.model import DqnConfig

    page = as_markdown()
    assert all(f"| `{k.name}` | {k.unit} | {k.bounds} |" in page for k in DqnConfig.knobs())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_to_files_lead_to_files(page):
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    local = [target for target in targets if "://" not in target]
    assert all((page.parent / target).exists() for target in local), local
