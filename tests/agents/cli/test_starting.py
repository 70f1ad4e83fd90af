"""What a command imports before it does anything, and what is said of starting and compiling."""

import io
import json
import os
import re
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from rich.console import Console
from tensorflow.core.framework import graph_pb2, types_pb2

import targetnet.agents.cli.policy_commands
import targetnet.agents.cli.train_commands
import targetnet.agents.run.display
import targetnet.agents.run.process
from targetnet.agents.cli.main import main
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.display import Display, Screen
from targetnet.agents.run.process import process_began
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core import RlCoreError

SHORT = {
    "env_steps": 60,
    "hidden": (8,),
    "batch_size": 8,
    "replay_capacity": 100,
    "learn_start": 30,
    "eval_period": 1_000,
    "final_eval_episodes": 1,
    "xla": False,
}
STARTED = r"started in \d+\.\d s, of which importing TensorFlow \d+\.\d s"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty directory to be in, and wide lines."""
    monkeypatch.delenv("TARGETNET_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMMAND = """
import contextlib, sys
from targetnet.agents.cli.main import main
with contextlib.suppress(SystemExit):
    main(sys.argv[1:])
print(*sys.modules)
"""


def modules_of(*arguments):
    """Names of all that a command, in a process of its own, has imported when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def help_of(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--help"])
    assert caught.value.code in (0, None)
    return capsys.readouterr().out


# What is imported.


def test_help_imports_the_parser_and_nothing_else():
    modules = modules_of("--help")
    packages = {name.partition(".")[0] for name in modules}
    assert not packages & {
        "tensorflow", "gymnasium", "numpy", "keras", "tensorboard", "pydantic", "rich",
        "typeguard", "asyncio", "multiprocessing",
    }  # fmt: skip
    ours = {name for name in modules if name.startswith("targetnet")}
    assert ours == {
        "targetnet", "targetnet.agents", "targetnet.agents.cli", "targetnet.agents.cli.main",
        "targetnet.agents.run", "targetnet.agents.run.process", "targetnet.envs",
        "targetnet.rl_core", "targetnet.rl_core.console", "targetnet.rl_core.errors",
        "targetnet.rl_core.lazy",
    }  # fmt: skip
    assert len(modules) < 250  # 166 with Python 3.11; 50 are the parser's


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--help"],
        ["configs"],
        ["train", "cartpol"],
        ["results"],
        ["board", "--port=-1"],
        ["record", "--help"],
        ["record", "nowhere", "data-v0"],
    ],
    ids=" ".join,
)
def test_only_the_named_command_is_imported(arguments):
    modules = modules_of(*arguments)
    assert not modules & {
        "tensorflow",
        "gymnasium",
        "targetnet.agents.cli.steer_commands",
        "targetnet.agents.dqn.agent",
        "minari",
    }
    assert ("targetnet.agents.experiments.results.command" in modules) == (
        arguments[0] == "results"
    )


WITHOUT_KERAS = """
import sys
from targetnet.agents.run.process import quiet_import
with quiet_import():
    assert "tensorflow" in sys.modules
print(*sorted({"keras", "keras.src.optimizers", "pandas", "matplotlib"} & set(sys.modules)))
from tensorflow.keras.layers import Dense
print(Dense(2).units)
"""


@pytest.mark.slow  # a process that imports both
def test_tensorflow_comes_without_keras_which_is_there_for_who_asks():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_KERAS], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["", "2"]


WITH_ONEDNN = """
from targetnet.agents.run.process import quiet_import
with quiet_import(onednn=True):
    from targetnet.rl_core import Engine, RlCoreError
Engine(onednn=True)
Engine()
try:
    Engine(onednn=False)
except RlCoreError as error:
    print(error)
"""


@pytest.mark.slow  # in the default run a config asks for it
def test_onednn_is_there_for_who_asked_before_the_import():
    done = subprocess.run(
        [sys.executable, "-c", WITH_ONEDNN], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "onednn = false, but TensorFlow was imported with oneDNN's operations on, which round "
        "differently: import targetnet before tensorflow, or set TF_ENABLE_ONEDNN_OPTS=0 before "
        "its import\n"
    )


TENSORFLOW_FIRST = """
import tensorflow
from targetnet import DqnAgent, DqnConfig, Engine, RlCoreError
import numpy as np
Engine()
try:
    DqnAgent(DqnConfig(hidden=(4,)), (3,), np.float32, 2)
except RlCoreError as error:
    print(error)
"""


@pytest.mark.slow  # it imports TensorFlow in a process of its own
@pytest.mark.parametrize(("variable", "refused"), [("1", True), ("0", False)])
def test_an_agent_gets_no_onednn_because_tensorflow_was_imported_first(variable, refused):
    # Without the variable TensorFlow decides by the processor: on some it has oneDNN off.
    done = subprocess.run(
        [sys.executable, "-c", TENSORFLOW_FIRST], capture_output=True, text=True, check=True,
        env=os.environ | {"TF_ENABLE_ONEDNN_OPTS": variable},
    )  # fmt: skip
    assert ("import targetnet before tensorflow" in done.stdout) == refused


class Enough(RlCoreError):
    """Raised instead of importing TensorFlow."""


@pytest.fixture
def with_onednn(here):
    """A run whose config asks for oneDNN, trained by the command in a process of its own."""
    text = "\n".join(f"{k} = {json.dumps(v)}" for k, v in SHORT.items())
    (here / "short.toml").write_text(text)
    in_a_process("train", "short.toml", "--run", "a", "--set", "onednn=true")
    return here / "a"


def in_a_process(*command):
    done = subprocess.run(
        [sys.executable, "-m", "targetnet.agents.cli", *command], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow  # four processes, one after the other
def test_a_config_asks_for_onednn_and_every_command_of_the_run_keeps_to_it(
    with_onednn, capsys, monkeypatch
):
    def asked(onednn=False):
        raise Enough(f"asked for {onednn}")

    for module in (
        targetnet.agents.run.process,
        targetnet.agents.cli.policy_commands,
        targetnet.agents.cli.train_commands,
    ):
        monkeypatch.setattr(module, "quiet_import", asked)
    for command in (["replay", "a"], ["eval", "a"], ["resume", "a", "--set", "env_steps=120"]):
        assert main(command) == 2
        assert capsys.readouterr().err == "targetnet: asked for True\n", command
    longer = RunDir.open(with_onednn).config().model_copy(update={"env_steps": 120})
    with pytest.raises(RlCoreError, match="set TF_ENABLE_ONEDNN_OPTS=1 before its import"):
        resume(with_onednn, longer)  # this process imported it without


@pytest.mark.slow  # in the default run the import is replaced, and trained in one process
def test_every_command_of_a_run_with_onednn_works_in_a_process_of_its_own(with_onednn):
    assert "identical" in in_a_process("replay", "a")
    in_a_process("eval", "a", "--episodes", "1")


PICTURES = """
import gymnasium as gym, numpy as np
from gymnasium.spaces import Box

class Pictures(gym.ObservationWrapper):
    observation_space = Box(0, 255, (36, 36, 1), np.uint8)

    def observation(self, observation):
        return np.resize((observation * 100 + 128).astype(np.uint8), (36, 36, 1))

gym.register("Pictures-v0", lambda **k: Pictures(gym.make("CartPole-v1", **k)))
"""


@pytest.mark.slow  # six processes, each with oneDNN
def test_a_run_in_bfloat16_replays_to_the_same_bits_and_is_exported_without_it(here):
    (here / "pictures.py").write_text(PICTURES)
    given = {"network": "nature", "env_id": "pictures:Pictures-v0", "onednn": True}
    for name, compute in [("rounded", "bfloat16"), ("exact", "float32")]:
        settings = (SHORT | given | {"compute": compute}).items()
        text = "\n".join(f"{k} = {json.dumps(v)}" for k, v in settings)
        (here / f"{name}.toml").write_text(text)
        in_a_process("train", f"{name}.toml", "--run", name)
        assert "identical" in in_a_process("replay", name)
    assert in_a_process("digest", "rounded") != in_a_process("digest", "exact")
    in_a_process("export", "rounded", "out", "--to", "frozen")
    graph = graph_pb2.GraphDef.FromString((here / "out" / "policy.pb").read_bytes())
    convolutions = [node for node in graph.node if node.op == "Conv2D"]
    assert {of.attr["T"].type for of in convolutions} == {types_pb2.DT_FLOAT}


# What help and mistakes say of commands that are not imported.


def test_help_has_every_commands_own_first_line(capsys):
    top = help_of(capsys)
    names = re.search(r"{(.*)}", top)[1].split(",")
    assert len(names) == 19
    for name in names:
        first_line = help_of(capsys, name).splitlines()[2]
        assert len(first_line) > 20 and re.search(rf"• {name} +{re.escape(first_line)} ", top)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["train", "x", "--folow"], "; did you mean --follow of targetnet log? (see"),
        (["set", "x", "--seds"], "; did you mean --seeds of targetnet results? (see"),
        (["sweep", "x", "--run", "y"], "; targetnet train has it (see"),
    ],
)
def test_a_flag_of_another_command_is_still_the_nearest(capsys, arguments, hint):
    assert main(arguments) == 2
    assert hint in capsys.readouterr().err


# What is said of starting.


@pytest.mark.thorough
def test_train_and_resume_say_once_how_long_starting_took(here, capsys):
    text = "\n".join(f"{k} = {json.dumps(v)}" for k, v in SHORT.items())
    (here / "short.toml").write_text(text)
    for arguments in (
        ["train", "short.toml", "--run", "mine"],
        ["resume", "mine", "--set", "env_steps=80"],
        ["train", "short.toml", "--run", "mine", "--resume", "--set", "env_steps=100"],
    ):
        assert main(arguments) == 0
        out = capsys.readouterr().out
        assert len(re.findall(STARTED, out)) == 1
        assert out.index("started in") < out.index("env step", out.index("replay of"))


def test_who_calls_train_is_told_nothing_of_starting(here):
    console = Console(file=io.StringIO())
    train(DqnConfig(**SHORT), here / "run", console=console)
    assert "env step 60" in console.file.getvalue()
    assert "started in" not in console.file.getvalue()


def test_a_process_began_after_who_started_it_began_it():
    before = time.perf_counter()
    code = "from targetnet.agents.run.process import process_began; print(process_began())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # The system counts in steps of 0.01 s.
    assert before - 0.02 <= float(done.stdout) <= time.perf_counter()
    assert process_began() < before


# What is said of compiling.


class Clock:
    """Stands in for `time`."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


def ticks_of(agent, clock, seconds):
    """One env step each; the first updates are made in the last one."""
    for number, each in enumerate(seconds, 1):
        clock.now += each
        agent.updates += number == len(seconds)
        agent.hyperparameters.env_step = number
        yield SimpleNamespace(env_step=number, episodes=())


class Live(dict):
    env_step = 0


def watched(monkeypatch, ticks, *, terminal=False, learn_start=2, loop="plain"):
    """What a display prints of `ticks(agent, clock, console)`."""
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    config = SimpleNamespace(env_steps=1_000, learn_start=learn_start, loop=loop, rollout=0)
    live = Live(epsilon=1.0)
    learner = SimpleNamespace(not_compiled=None)
    agent = SimpleNamespace(config=config, hyperparameters=live, updates=0, learner=learner)
    clock = Clock()
    monkeypatch.setattr(targetnet.agents.run.display, "time", clock)
    with Display(agent, Screen(console)) as display:
        for tick in display.watched(ticks(agent, clock, console), lambda tick: None):
            display.tick(tick, lambda env_step: 0.0)
            clock.now += 100  # an evaluation, or a pause: not of the loop
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ([0.5, 0.5, 2.5], "compiled in 2.0 s"),  # 2.5 s less the 0.5 of the step before
        ([0.5, 0.5, 1.4], None),  # plain operations
        ([2.0, 2.0, 2.5], None),  # a slow env
        ([3.0], "compiled in 3.0 s"),  # the first call is all there is
    ],
)
def test_the_first_updates_say_how_long_compiling_took(monkeypatch, seconds, said):
    out = watched(monkeypatch, lambda agent, clock, _: ticks_of(agent, clock, seconds))
    assert re.findall(r"compiled in .* s", out) == ([said] if said else [])


def shown_during_a_long_call(console, clock, text):
    """Whether the bar says `text` while the loop is in a call of 2 seconds."""
    before = len(console.file.getvalue())
    clock.now += 2
    for _ in range(1_000):  # the bar's thread looks ten times a second
        time.sleep(0.01)
        new = console.file.getvalue()[before:]
        if text in new or new.count("env steps") >= 3:
            return text in new
    raise AssertionError("the bar stands still")


def test_the_bar_says_compiling_only_while_the_first_updates_may_be_made(monkeypatch):
    seen = []

    def ticks(agent, clock, console):
        for number in range(1, 5):
            seen.append(shown_during_a_long_call(console, clock, "compiling ..."))
            agent.hyperparameters.env_step = number
            agent.updates += number == 3
            yield SimpleNamespace(env_step=number, episodes=())

    watched(monkeypatch, ticks, terminal=True, learn_start=2)
    # Steps 1 and 2 come before learn_start; the third makes updates, the fourth has them made.
    assert seen == [False, False, True, False]


def test_the_compiled_loop_compiles_with_its_first_call(monkeypatch):
    seen = []

    def ticks(agent, clock, console):
        seen.append(shown_during_a_long_call(console, clock, "compiling ..."))
        agent.updates += 1
        yield SimpleNamespace(env_step=10, episodes=())

    out = watched(monkeypatch, ticks, terminal=True, learn_start=1_000, loop="compiled")
    assert seen == [True] and "compiled in 2.0 s" in out
