"""What a release has written, every later one reads, or says exactly why it does not."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from targetnet.agents.config.envs import training_envs
from targetnet.agents.loops.plain import LoopState
from targetnet.agents.population.repeat import repeat_population
from targetnet.agents.population.train import resume_population
from targetnet.agents.run.agent_factory import agent_for
from targetnet.agents.run.checkpoints import restore_agent
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume
from targetnet.agents.saved.directory import RunDir
from targetnet.agents.saved.host import read_host
from targetnet.rl_core.checkpoint.store import CheckpointError, CheckpointStore
from targetnet.rl_core.errors import ScopeMismatch
from tests.golden.make import PROCESSOR, this_processor

HERE = Path(__file__).parent
GOLDEN = sorted(path.parent for path in HERE.glob("*/config.toml"))
OF_ONE_PROCESSOR = sorted(path.parent for path in HERE.glob(f"*/{PROCESSOR}"))


@pytest.fixture(params=GOLDEN, ids=lambda path: path.name)
def golden(request, tmp_path):
    return Path(shutil.copytree(request.param, tmp_path / request.param.name))


@pytest.fixture
def first(tmp_path):
    return Path(shutil.copytree(HERE / "first", tmp_path / "first"))


@pytest.mark.cases(0)
@pytest.mark.parametrize("made", OF_ONE_PROCESSOR, ids=lambda path: path.name)
def test_it_is_repeated_bit_for_bit(made, tmp_path):
    if (wanted := (made / PROCESSOR).read_text().strip()) != this_processor():
        pytest.skip(f"made on {wanted}, this is {this_processor()}")
    run = shutil.copytree(made, tmp_path / "run")
    if made.name == "population":
        verdicts = repeat_population(run, console=None)
    else:
        verdicts = {made.name: repeat(run, console=None)}
    assert verdicts and all(verdict.identical for verdict in verdicts.values()), verdicts


@pytest.mark.cases(0)
def test_a_population_goes_on(tmp_path):
    run = Path(shutil.copytree(HERE / "population", tmp_path / "run"))
    outcome = resume_population(run, changes=["env_steps=300"], console=None)
    assert [of.env_steps for of in outcome.members.values()] == [300, 300]


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
    assert agent.updates == directory.load_digest().update
    name, value = ("tau", 0.5) if directory.path.name == "first" else ("discount", 0.9)
    assert agent.hyperparameters[name] == value


@pytest.mark.cases(0)
def test_it_goes_on(golden):
    config = RunDir.open(golden).config()
    longer = config.model_copy(update={"env_steps": config.env_steps + 100})
    here = {"ray": "off"} if config.loop == "remote" else {}
    assert resume(golden, longer, **here).env_steps >= longer.env_steps


def test_a_checkpoint_of_another_format_is_refused_by_its_number(first):
    (path,) = first.glob("checkpoints/0*/manifest.json")
    manifest = json.loads(path.read_text().split("\n")[0]) | {"format": 99}
    text = json.dumps(manifest, sort_keys=True)
    path.write_text(f"{text}\n{hashlib.sha256(text.encode()).hexdigest()}\n")
    with pytest.raises(CheckpointError, match="it has format 99, this version reads 1"):
        resume(first)


@pytest.mark.cases(0)
def test_a_checkpoint_that_lacks_something_is_refused_by_what_it_lacks(first):
    config = (first / "config.toml").read_text()
    (first / "config.toml").write_text(config.replace("dueling = false", "dueling = true"))
    (first / "result.json").unlink()
    with pytest.raises(ScopeMismatch, match=r"online/value/.* should be float32.*, got nothing"):
        resume(first)
