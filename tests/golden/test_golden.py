"""What a release has written, every later one reads, or says exactly why it does not."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from targetnet.agents.config.envs import training_envs
from targetnet.agents.loops.plain import LoopState
from targetnet.agents.run.checkpoints import restore_agent
from targetnet.agents.run.making import agent_for
from targetnet.agents.run.train import resume
from targetnet.agents.saved.directory import RunDir
from targetnet.agents.saved.host import read_host
from targetnet.rl_core.checkpoint.store import CheckpointError, CheckpointStore
from targetnet.rl_core.errors import ScopeMismatch

GOLDEN = sorted(path.parent for path in Path(__file__).parent.glob("*/config.toml"))


@pytest.fixture(params=GOLDEN, ids=lambda path: path.name)
def golden(request, tmp_path):
    return Path(shutil.copytree(request.param, tmp_path / "golden"))


@pytest.mark.cases(0)
def test_its_checkpoint_is_loaded_bit_for_bit(golden):
    """The digest is of what was loaded, so it holds on every machine."""
    directory = RunDir.open(golden)
    envs = training_envs(directory.config())
    envs.close()
    agent = agent_for(directory.config(), envs)
    store = CheckpointStore(directory.checkpoints)
    checkpoint = store.latest()
    restore_agent(agent, checkpoint, store)
    loop = LoopState.of(read_host(checkpoint).loop.model_dump())
    assert agent.state.digest(**loop.position()) == directory.load_digest().digest
    assert agent.hyperparameters["tau"] == 0.5 and agent.state.snapshots == (20,)
    assert agent.updates == directory.load_digest().update


@pytest.mark.cases(0)
def test_it_goes_on(golden):
    config = RunDir.open(golden).config()
    longer = config.model_copy(update={"env_steps": config.env_steps + 100})
    assert resume(golden, longer).env_steps >= longer.env_steps


def test_a_checkpoint_of_another_format_is_refused_by_its_number(golden):
    (path,) = golden.glob("checkpoints/0*/manifest.json")
    manifest = json.loads(path.read_text().split("\n")[0]) | {"format": 99}
    text = json.dumps(manifest, sort_keys=True)
    path.write_text(f"{text}\n{hashlib.sha256(text.encode()).hexdigest()}\n")
    with pytest.raises(CheckpointError, match="it has format 99, this version reads 1"):
        resume(golden)


@pytest.mark.cases(0)
def test_a_checkpoint_that_lacks_something_is_refused_by_what_it_lacks(golden):
    config = (golden / "config.toml").read_text()
    (golden / "config.toml").write_text(config.replace("dueling = false", "dueling = true"))
    (golden / "result.json").unlink()
    with pytest.raises(ScopeMismatch, match=r"online/value/.* should be float32.*, got nothing"):
        resume(golden)
