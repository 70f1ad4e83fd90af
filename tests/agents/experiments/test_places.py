"""Where jobs run: what is refused before anybody asks a cluster."""

import pytest
import tyro
from rich.console import Console

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.experiments.places import HERE, place_for
from targetnet.agents.experiments.results.command import Results
from targetnet.rl_core.errors import ConfigError, RlCoreError
from targetnet.rl_core.machine import cores


def test_without_an_address_jobs_run_here_one_for_each_core():
    with place_for(None, None, [], print) as found:
        assert found == (HERE, cores())
    with place_for(None, 3, [], print) as found:
        assert found == (HERE, 3)


def test_a_config_that_reports_elsewhere_is_not_for_a_cluster():
    config = DqnConfig(log_to=("mlflow",))
    with pytest.raises(ConfigError, match=r"--ray: log_to = \['mlflow'\] would report"):
        place_for("auto", None, [config], print).__enter__()


def test_a_peer_and_a_cluster_are_two_commands(tmp_path):
    words = ["cartpole", "--out", str(tmp_path / "out"), "--ray", "auto", "--peer", "sb3"]
    with pytest.raises(RlCoreError, match="--peer trains on this machine alone"):
        tyro.cli(Results, args=words)(Console(quiet=True))
    assert not (tmp_path / "out").exists()


def test_a_dead_address_is_one_line_and_nothing_is_left(tmp_path):
    words = ["cartpole", "--out", str(tmp_path / "out"), "--ray", "127.0.0.1:1"]
    with pytest.raises(RlCoreError, match=r"no Ray cluster at 127\.0\.0\.1:1: Connection refused"):
        tyro.cli(Results, args=words)(Console(quiet=True))
    assert not (tmp_path / "out").exists()
