"""The Python in README and docs runs as it stands."""

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


def test_the_network_in_the_docs_is_a_network(tmp_path):
    """Trained as the page says, by the command, from the directory that has the module."""
    page = (README.parent / "docs" / "family.md").read_text()
    (module,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "towers.py").write_text(module)
    short = ["env_steps=300", "learn_start=50", "final_eval_episodes=1", "xla=false"]
    freeze = ['freeze=[{exempt=["velocities"],updates=9}]']
    command = [Path(sys.executable).with_name("targetnet"), "train", "cartpole", "--run", "run"]
    done = subprocess.run(
        [*command, "--set", "network=towers:two", *freeze, *short],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_toml_in_the_docs_is_a_config(tmp_path):
    from agents.config_files import read_config

    page = (README.parent / "docs" / "family.md").read_text()
    (toml,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "mine.toml"
    path.write_text(toml)
    assert read_config(path).head == "quantile"
