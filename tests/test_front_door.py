"""`import targetnet`: all public names, typed and loaded on first use."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import targetnet
from targetnet import agents, envs, rl_core

ROOT = Path(__file__).parents[1]
SCRIPT = """
from pathlib import Path

import targetnet


def on_tick(agent: targetnet.DqnAgent, tick: targetnet.Tick) -> None:
    if tick.env_step == 600:
        agent.hyperparameters["sync_period"] = 7


config = targetnet.DqnConfig(env_id="CartPole-v1", env_steps=1_000, hidden=(16,))
outcome = targetnet.train(config, Path("runs/mine"), on_tick=on_tick)
client = targetnet.RunClient(outcome.run)
identical: bool = targetnet.replay(outcome.run).identical
envs = targetnet.make_envs(config.env_id, seed=1)
agent = targetnet.DqnAgent(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)
for tick in targetnet.training_loop(agent, envs):
    print(tick.env_step)
engine = targetnet.Engine()
"""


def python(code, folder, **environ):
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **environ},
        capture_output=True,
        text=True,
    )


def typed_names():
    """The names that type checkers see."""
    tree = ast.parse((ROOT / "targetnet/__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            yield from (a.asname for a in node.names if a.asname)
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets)


def test_it_has_every_public_name_of_the_packages_once_and_no_other():
    names = [*agents.__all__, *envs.__all__, *rl_core.__all__]
    assert targetnet.__all__ == dir(targetnet) == sorted(names)
    assert len(set(names)) == len(names)
    assert sorted(typed_names()) == targetnet.__all__


def test_the_public_names_are_those_that_were_promised():
    """One that is to go stays for a release and warns: CONTRIBUTING.md."""
    assert targetnet.__all__ == (ROOT / "tests/public_names.txt").read_text().split()


@pytest.mark.parametrize("package", [agents, envs, rl_core], ids=lambda p: p.__name__)
def test_a_name_is_the_very_thing_of_its_package(package):
    for name in package.__all__:
        assert getattr(targetnet, name) is getattr(package, name)


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'targetnet' has no attribute 'tarin'"):
        targetnet.tarin  # noqa: B018


def test_the_import_loads_neither_tensorflow_nor_gymnasium(tmp_path):
    """That is what makes it fast: no test asserts a time."""
    code = "import sys, targetnet; print({'tensorflow', 'gymnasium', 'pydantic'} & {*sys.modules})"
    assert python(code, tmp_path).stdout == "set()\n"


CORRIDOR = """
import gymnasium as gym

class Corridor(gym.Env):
    observation_space = gym.spaces.Box(0, 9, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.low, {}

    def step(self, action):
        return self.observation_space.low, 0.0, True, False, {}

gym.register("Corridor-v0", Corridor)
"""


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_packages_of_the_users_own_may_have_the_names_of_our_folders(tmp_path, vectorization):
    """`sys.path` begins with the folder of a user's script."""
    for name in ("agents", "configs", "envs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"MINE = {name!r}")
    (tmp_path / "rl_core.py").write_text("MINE = 'rl_core'")
    (tmp_path / "envs/corridor.py").write_text(CORRIDOR)
    code = "import sys, targetnet, agents, configs, envs, rl_core\n"
    how = f"2, seed=1, vectorization={vectorization!r}"
    code += f"made = targetnet.make_envs('envs.corridor:Corridor-v0', {how})"
    code += "\nprint(made.reset().observation.shape, len(targetnet.agents.__all__)); made.close()"
    code += "\nprint(agents.MINE, configs.MINE, envs.MINE, rl_core.MINE)"
    done = python(code, tmp_path)
    shown = [f"(2, 1) {len(agents.__all__)}", "agents configs envs rl_core"]
    assert done.stdout.splitlines() == shown, done.stderr


@pytest.mark.slow  # mypy reads all of pydantic and numpy
def test_a_users_file_passes_the_strict_type_check(tmp_path):
    (tmp_path / "mine.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "mine.py"],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
