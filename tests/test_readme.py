"""The README's Python runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_readme_has_its_three_examples():
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize("example", EXAMPLES, ids=["agents", "replay", "rl_core alone"])
def test_a_readme_example_runs(example, tmp_path):
    script = tmp_path / "example.py"
    script.write_text(example)
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d", done.stdout)


def test_the_readme_toml_is_a_config(tmp_path):
    from agents.config_files import read_config

    (toml,) = re.findall(r"```toml\n(.*?)```", README.read_text(), re.DOTALL)
    path = tmp_path / "readme.toml"
    path.write_text(toml)
    assert read_config(path).freeze[1].exempt == ("torso",)
