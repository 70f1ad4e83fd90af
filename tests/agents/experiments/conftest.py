"""Fakes: children that only say they trained, a peer's interpreter, results made by hand."""

import json
import sys

import pytest

from targetnet.agents.experiments.results.table import Row
from targetnet.agents.experiments.store import FinishedRun

# What `targetnet train` does as far as `results` can see. "slow" waits to be interrupted once,
# saves, and ends when it is called again; "bad" fails for seed 1.
TRAINER = """
import json, os, signal, sys, time
from pathlib import Path

import tomllib

config, _, run, resume = sys.argv[1:]
assert (_, resume) == ("--run", "--resume")
text = Path(config).read_text()
members = tomllib.loads(text).get("members")
if members:  # a population
    place = Path(run)
    place.mkdir(parents=True, exist_ok=True)
    if (place / "population.toml").exists() and (place / "population.toml").read_text() != text:
        sys.exit("targetnet: another population")
    (place / "population.toml").write_text(text)
    with (place / "calls").open("a") as calls:
        calls.write("1\\n")
    for number, member in enumerate(members):
        if place.parent.name == "bad" and member["seed"] == 1:
            continue
        run = place / f"m{number:02}"
        run.mkdir(exist_ok=True)
        (run / "config.toml").write_text(f'env_id = "CartPole-v1"\\nseed = {member["seed"]}\\n')
        score = 100.0 * (member["seed"] + 1)
        result = dict(env_steps=500, updates=50, mean=score, std=1.0, min=score - 1, max=score + 1)
        (run / "result.json").write_text(json.dumps(result))
    sys.exit("targetnet: 1 of 3 members failed" if place.parent.name == "bad" else 0)
run, name, seed = Path(run), Path(run).parent.name, tomllib.loads(text)["seed"]
run.mkdir(parents=True, exist_ok=True)
with (run / "calls").open("a") as calls:
    calls.write(os.environ["OMP_NUM_THREADS"] + "\\n")
if (run / "result.json").exists():
    sys.exit(0)
if name == "bad" and seed == 1:
    print("it began well")
    sys.exit("targetnet: the env fell over")
if name == "slow" and not (run / "checkpoint").exists():
    got = []
    signal.signal(signal.SIGINT, lambda *_: got.append(1))
    (run / "started").touch()
    while not got:
        time.sleep(0.01)
    time.sleep(0.3)  # saving takes a while, in which a second one would come
    (run / "checkpoint").write_text(str(len(got)))
    sys.exit(130)
(run / "config.toml").write_text(text)
score = 100.0 * (seed + 1)
result = dict(env_steps=500, updates=50, mean=score, std=1.0, min=score - 1, max=score + 1)
(run / "result.json").write_text(json.dumps(result))
"""
PEER = """#!{python}
import sys
worker, env_id, _, seed, _, out, _, processor = sys.argv[1:]
assert worker.endswith("sb3_worker.py")
from pathlib import Path
from targetnet.rl_core.seal import sealed_row
Path(out).parent.mkdir(parents=True, exist_ok=True)
Path(out).write_bytes(sealed_row({peer!r} | dict(env_id=env_id, seed=int(seed))))
"""
PEER_RESULT = {
    "env_id": "CartPole-v1",
    "seed": 0,
    "env_steps": 512,
    "updates": 40,
    "mean": 20.0,
    "std": 10.0,
    "low": 10.0,
    "high": 30.0,
    "curve": [[250, 9.0], [500, 11.0], [512, 20.0]],
    "seconds": 61.5,
    "training": 12.5,
    "returns": [10.0, 30.0],
    "cut": 0,
    "settings": {"learning_rate": 0.0023, "net_arch": [256, 256]},
    "source": "https://example.org/dqn.yml",
    "versions": {"stable_baselines3": "2.9.2"},
    "processor": "A Processor",
    "date": "2026-01-31",
}


MEANS = (100.0, 200.0, 300.0, 400.0)
ABOUT = {
    "settings": {"hidden": [64, 64]},
    "versions": {"targetnet": "1.0.0"},
    "processor": "A Processor, avx2",
    "date": "2026-02-01",
}


@pytest.fixture
def trainer(tmp_path):
    """The fake's command, in the place of `python -m targetnet.agents.cli train`."""
    path = tmp_path / "trainer.py"
    path.write_text(TRAINER)
    return [sys.executable, str(path)]


@pytest.fixture
def peer_python(tmp_path):
    """A program that is called like an interpreter and writes a peer's result."""
    path = tmp_path / "peer-python"
    path.write_text(PEER.format(python=sys.executable, peer=PEER_RESULT))
    path.chmod(0o755)
    return path


@pytest.fixture
def peer_result():
    return json.loads(json.dumps(PEER_RESULT))


@pytest.fixture
def row():
    """Four seeds of an agent with means 100, 200, 300, 400, or others."""

    def row(name="cartpole", means=MEANS, env_id="CartPole-v1", *, peer=False, **about):
        seeds = [
            FinishedRun(
                agent=name,
                env_id=env_id,
                seed=number,
                env_steps=1_000,
                updates=900,
                mean=mean,
                std=2.0,
                low=mean - 3,
                high=mean + 3,
                curve=[(500, mean / 2), (1_000, mean)],
                seconds=60.0 + number,
                training=mean - 10,
                **ABOUT | about,
            )
            for number, mean in enumerate(means)
        ]
        return Row(env_id, name, seeds, peer)

    return row
