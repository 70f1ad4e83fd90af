"""The study of the sync period: its pages are what its commands print of the committed rows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from targetnet.agents.cli.main import main

ROOT = Path(__file__).parents[4]
ROWS = "docs/rows/study_period.jsonl"


@pytest.mark.thorough
def test_the_evidence_is_what_the_script_prints():
    page = (ROOT / "docs/explanation/study_evidence.md").read_text()
    assert f"\npython docs/study/evidence.py {ROWS} > docs/explanation/study_evidence.md\n" in page
    command = [sys.executable, "docs/study/evidence.py", ROWS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == page


@pytest.mark.slow
def test_the_page_is_what_the_command_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    page = Path(os.path.relpath(tmp_path / "study_period.md"))
    plan = "docs/study/periods.toml"
    assert not main(["compare", plan, "--rows", ROWS, "--page", str(page), "--finished"])
    assert (
        page.read_text().replace(str(page), "docs/explanation/study_period.md")
        == (ROOT / "docs/explanation/study_period.md").read_text()
    )
