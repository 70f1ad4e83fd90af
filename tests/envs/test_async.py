"""Envs in worker processes: the rows of the loop in one process, and an end without leftovers."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from targetnet.envs import Envs, Step, async_driver, make_envs
from targetnet.rl_core.errors import EnvError, EnvFailed, EnvFault
from tests.gymnasium_versions import TAXI

ROOT = Path(__file__).parents[2]
# Each with its env_kwargs and steps: some episodes terminate, some are cut off, Taxi has masks,
# and the steps of MinAtar are random.
CASES = [
    ("CartPole-v1", {"max_episode_steps": 30}, 1000),
    (TAXI, {"max_episode_steps": 50}, 1000),
    ("MinAtar/Breakout-v1", {}, 1000),
    ("Acrobot-v1", {"max_episode_steps": 100}, 500),
    ("FrozenLake-v1", {}, 500),
]
LONGER = [(*case[:2], 3000) for case in CASES[:2]]

# What a worker can import, and the test's own process too.
MODULE = """
import os, sys, time
import gymnasium as gym, numpy as np

class Moody(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(5)

    def __init__(self, parent=0, only_in_parent=False):
        if only_in_parent and os.getpid() != parent:
            raise RuntimeError("not at home")

    def row(self):
        return np.float32([os.getpid() % 2**20, "tensorflow" in sys.modules])

    def reset(self, *, seed=None, options=None):
        return self.row(), {}

    def step(self, action):
        if action == 1:
            raise RuntimeError("not today,\\nnot here")
        if action == 2:
            os._exit(3)
        if action == 3:
            raise EOFError("of its own")
        if action == 4:
            time.sleep(600)
        return self.row(), 1.0, False, False, {}

class FirstMaskOnly(Moody):
    def reset(self, *, seed=None, options=None):
        return self.row(), {"action_mask": np.ones(5)}

gym.register("Moody-v0", Moody)
gym.register("FirstMaskOnly-v0", FirstMaskOnly)
"""
GO_ON, RAISE, EXIT, RAISE_EOF, SLEEP = range(5)


@pytest.fixture(autouse=True)
def moody_module(tmp_path, monkeypatch):
    (tmp_path / "moody_envs.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("moody_envs", None)
    for name in ("Moody-v0", "FirstMaskOnly-v0"):
        gym.registry.pop(name, None)


@pytest.fixture
def made():
    """make_envs with vectorization "async"; all that it made is closed at the end."""
    with contextlib.ExitStack() as opened:

        def make(*args, **kwargs) -> Envs:
            envs = make_envs(*args, **{"seed": 7, "vectorization": "async", **kwargs})
            opened.callback(envs.close)
            return envs

        yield make


def moody(made, num_envs=3, **kwargs) -> Envs:
    envs = made("moody_envs:Moody-v0", num_envs, **kwargs)
    envs.reset()
    return envs


def pids(envs: Envs) -> list[int]:
    return [worker._process.pid for worker in envs._workers]


def is_alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def gone(processes: list[int]) -> bool:
    """Whether all of them end; waits for it, since nobody here is their parent."""
    deadline = time.monotonic() + 60
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(is_alive, processes))


def message_of(envs: Envs, actions: list[int]) -> str:
    with pytest.raises((EnvError, EnvFault)) as raised:
        envs.step(np.array(actions))
    assert "\n" not in str(raised.value)
    return str(raised.value)


def assert_same(a: Step, b: Step) -> None:
    assert a.episodes == b.episodes
    for ours, theirs in zip(a, b, strict=True):
        if isinstance(ours, np.ndarray):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
        else:
            assert ours == theirs  # the episodes, or no masks


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    ("env_id", "env_kwargs", "steps"),
    [*CASES[:3], *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES[3:] + LONGER)],
)
def test_async_equals_sync_row_by_row(made, env_id, env_kwargs, steps):
    ours = made(env_id, 5, env_kwargs=env_kwargs)
    theirs = make_envs(env_id, 5, seed=7, env_kwargs=env_kwargs)
    rng = np.random.default_rng(0)
    assert ours.frames_per_second == theirs.frames_per_second
    assert ours.has_action_masks == theirs.has_action_masks == (env_id == TAXI)
    a, b = ours.reset(), theirs.reset()
    endings = []
    for _ in range(steps):
        assert_same(a, b)
        endings += [episode.terminated for episode in a.episodes]
        actions = rng.integers(ours.num_actions, size=5).astype(np.int32)
        a, b = ours.step(actions), theirs.step(actions)
    assert ours.state() == theirs.state()
    assert len(endings) >= 20
    if env_id in ("CartPole-v1", TAXI, "Acrobot-v1"):
        assert not all(endings)  # some were truncated


@pytest.mark.parametrize(
    "cores", [1, 3, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 8))]
)
def test_the_rows_do_not_depend_on_the_number_of_workers(made, monkeypatch, cores):
    monkeypatch.setattr(async_driver, "cores", lambda: cores)
    ours = made("CartPole-v1", 5)
    assert len(ours._workers) == min(cores, 5)
    theirs = make_envs("CartPole-v1", 5, seed=7)
    assert_same(ours.reset(), theirs.reset())
    rng = np.random.default_rng(0)
    for _ in range(200):
        actions = rng.integers(2, size=5)
        assert_same(ours.step(actions), theirs.step(actions))


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    ("env_id", "before", "after"),
    [
        (TAXI, "async", "async"),
        ("CartPole-v1", "async", "sync"),
        ("MinAtar/Seaquest-v1", "sync", "async"),
        *(
            pytest.param(env_id, *how, marks=pytest.mark.slow)
            for env_id, *how in [
                (TAXI, "async", "sync"),
                (TAXI, "sync", "async"),
                ("CartPole-v1", "async", "async"),
                ("CartPole-v1", "sync", "async"),
                ("MinAtar/Seaquest-v1", "async", "async"),
                ("MinAtar/Seaquest-v1", "async", "sync"),
            ]
        ),
    ],
)
def test_it_comes_back_in_mid_episode_also_as_the_other(made, env_id, before, after):
    envs = made(env_id, 4, vectorization=before)
    rng = np.random.default_rng(0)
    envs.reset()
    for _ in range(150):
        step = envs.step(rng.integers(envs.num_actions, size=4))
    other = made(env_id, 4, vectorization=after)
    again, problems = other.restore(json.loads(json.dumps(envs.state())))
    assert problems == []
    assert_same(again, step._replace(episodes=()))
    for _ in range(200):
        actions = rng.integers(envs.num_actions, size=4)
        assert_same(envs.step(actions), other.step(actions))


def test_what_did_not_come_back_is_named_by_its_number_among_all(made):
    envs = made("CartPole-v1", 4)
    envs.reset()
    for _ in range(5):
        envs.step(np.ones(4, int))
    state = envs.state()
    state["lanes"][2]["observations"] += 1
    step, problems = envs.restore(state)
    assert problems == ["env 2 (CartPole-v1) gave other results when episode 0 was repeated"]
    assert step.autoreset.tolist() == [False, False, True, False]
    with pytest.raises(ValueError, match="of 3 envs, not of 4"):
        envs.restore({"lanes": state["lanes"][:3]})


def test_reset_begins_the_run_anew(made):
    envs = made("CartPole-v1", 3)
    first = envs.reset().observation.copy()
    for _ in range(30):
        envs.step(np.ones(3, int))
    again = envs.reset()
    np.testing.assert_array_equal(again.observation, first)
    assert again.autoreset.all() and again.episodes == ()


def test_env_0_is_drawn(made):
    envs = made("MinAtar/Asterix-v1", 3, env_kwargs={"render_mode": "rgb_array"})
    theirs = make_envs("MinAtar/Asterix-v1", seed=7, env_kwargs={"render_mode": "rgb_array"})
    envs.reset(), theirs.reset()
    np.testing.assert_array_equal(envs.render(), theirs.render())


def test_the_envs_live_in_other_processes_which_import_no_tensorflow(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", types.ModuleType("tensorflow"))
    monkeypatch.setattr(async_driver, "cores", lambda: 2)
    envs = moody(made)
    observation = envs.step(np.full(3, GO_ON)).observation
    first, second = (pid % 2**20 for pid in pids(envs))
    np.testing.assert_array_equal(observation[:, 0], [first, first, second])
    np.testing.assert_array_equal(observation[:, 1], [0, 0, 0])


def test_an_env_that_raises_gives_one_line_and_its_traceback_as_the_cause(made, monkeypatch):
    monkeypatch.setattr(async_driver, "cores", lambda: 2)
    envs = moody(made, 4)
    processes = pids(envs)
    with pytest.raises(EnvFailed) as raised:
        envs.step(np.array([GO_ON, GO_ON, GO_ON, RAISE]))
    assert str(raised.value) == (
        "env 3 (moody_envs:Moody-v0), step 1 of its episode 0: RuntimeError was raised (not "
        "today, not here); correct the env"
    )
    assert raised.value.env_steps == 4
    assert 'raise RuntimeError("not today' in str(raised.value.__cause__)
    assert gone(processes)
    with pytest.raises(ValueError, match="are closed"):
        envs.step(np.full(4, GO_ON))


def test_an_error_of_an_env_is_not_taken_for_the_end_of_the_pipe(made):
    message = message_of(moody(made, 1), [RAISE_EOF])
    assert message == (
        "env 0 (moody_envs:Moody-v0), step 1 of its episode 0: EOFError was raised (of its own); "
        "correct the env"
    )


def test_a_mask_that_is_missing_later_is_refused_as_in_sync(made):
    messages = []
    for vectorization in ("sync", "async"):
        envs = made("moody_envs:FirstMaskOnly-v0", 2, vectorization=vectorization)
        envs.reset()
        messages.append(message_of(envs, [GO_ON, GO_ON]))
    assert messages[0] == messages[1]
    assert messages[0].startswith("env 0 (moody_envs:FirstMaskOnly-v0), step 1 of its episode 0: ")
    assert "info['action_mask'] must" in messages[0]


def test_a_worker_that_exits_gives_one_line(made, monkeypatch):
    monkeypatch.setattr(async_driver, "cores", lambda: 3)
    envs = moody(made)
    processes = pids(envs)
    assert message_of(envs, [GO_ON, EXIT, GO_ON]) == (
        "env 1 (moody_envs:Moody-v0): the worker process exited with 3; see whether memory ran out"
    )
    assert gone(processes)


@pytest.mark.parametrize("request_name", ["step", "state", "reset"])
def test_a_worker_that_is_killed_gives_one_line(made, monkeypatch, request_name):
    monkeypatch.setattr(async_driver, "cores", lambda: 2)
    envs = made("CartPole-v1", 4)
    envs.reset()
    for _ in range(50):
        envs.step(np.ones(4, int))
    processes = pids(envs)
    os.kill(processes[1], signal.SIGKILL)
    arguments = [np.ones(4, int)] if request_name == "step" else []
    with pytest.raises(EnvError) as raised:
        getattr(envs, request_name)(*arguments)
    assert str(raised.value) == (
        "envs 2 to 3 (CartPole-v1): the worker process was killed by SIGKILL; see whether memory "
        "ran out"
    )
    assert gone(processes)


@pytest.mark.thorough
def test_workers_that_do_not_end_are_killed_together(made, monkeypatch):
    monkeypatch.setattr(async_driver, "cores", lambda: 3)
    envs = moody(made)
    processes = pids(envs)
    killer = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -KILL {processes[0]}"])
    monkeypatch.setattr(async_driver, "_SECONDS_TO_END", 0.2)
    assert "env 0 " in message_of(envs, [SLEEP, SLEEP, SLEEP])
    assert not any(map(is_alive, processes))
    killer.wait()


def test_a_worker_that_is_killed_while_it_is_waited_for_gives_one_line(made):
    envs = moody(made, 1)
    (pid,) = pids(envs)
    killer = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -KILL {pid}"])
    assert "was killed by SIGKILL" in message_of(envs, [SLEEP])
    killer.wait()


def test_an_env_that_cannot_be_made_in_a_worker_gives_one_line(made):
    with pytest.raises(EnvError) as raised:
        moody(made, 2, env_kwargs={"parent": os.getpid(), "only_in_parent": True})
    assert "(RuntimeError: not at home)" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_cannot_be_sent_to_a_worker_gives_one_line(made):
    with pytest.raises(EnvError) as raised:
        made("test/Scripted-v0", env_kwargs={"pay": (i for i in ())})
    assert str(raised.value) == (
        "env 'test/Scripted-v0' cannot be given to a worker process (cannot pickle 'generator' "
        "object); correct env_kwargs, or set vectorization = 'sync'"
    )


def test_what_is_wrong_is_found_before_a_process_starts(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    for env_id, env_kwargs, problem in [
        ("CartPloe-v1", {}, "did you mean 'CartPole-v1'?"),
        ("CartPole-v1", {"x": 1}, "takes no argument 'x'"),
        ("Pendulum-v1", {}, "a continuous action space"),
    ]:
        with pytest.raises(EnvError, match=problem):
            make_envs(env_id, 2, seed=1, vectorization="async", env_kwargs=env_kwargs)


def test_a_closed_driver_cannot_be_stepped_and_may_be_closed_again(made):
    envs = made("CartPole-v1", 2)
    envs.reset()
    processes = pids(envs)
    envs.close()
    assert gone(processes)
    envs.close()
    with pytest.raises(ValueError, match="'CartPole-v1' are closed"):
        envs.step(np.zeros(2, int))


@pytest.mark.parametrize("wrong", [1, 3])
def test_a_wrong_number_of_actions_is_an_error(made, wrong):
    envs = made("CartPole-v1", 2)
    envs.reset()
    with pytest.raises(ValueError, match="needs 2 actions"):
        envs.step(np.zeros(wrong, int))


# No guard around the main module, which also defines the env.
SCRIPT = """
import sys
import gymnasium as gym, numpy as np
from targetnet.envs import make_envs

class Local(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}
    def step(self, action):
        return np.ones(1, np.float32), 1.0, False, False, {}

gym.register("Local-v0", Local)
print("main", flush=True)
envs = make_envs("Local-v0", 3, seed=1, vectorization="async")
envs.reset()
print(*[worker._process.pid for worker in envs._workers], flush=True)
"""
FOREVER = """
while True:
    envs.step(np.zeros(3, int))
"""


# As a run does it: Ctrl-C asks it to stop, and it goes on to a safe point.
GRACEFUL = """
import signal
asked = []
signal.signal(signal.SIGINT, lambda *_: asked.append(1))
while not asked:
    envs.step(np.zeros(3, int))
for _ in range(50):
    envs.step(np.zeros(3, int))
print(len(envs.state()["lanes"]), flush=True)
"""


def interrupted(path: Path, script: str, sent: int) -> tuple[str, str]:
    """Sends a signal, as a terminal does to the whole group, to a script in mid-run.

    Returns:
      What it printed after its workers were there, and the last line of its errors.
    """
    (path / "script.py").write_text(script)
    parent = subprocess.Popen(
        [sys.executable, path / "script.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with parent:
        assert parent.stdout is not None and parent.stderr is not None
        assert parent.stdout.readline() == "main\n"
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(workers) == min(3, async_driver.cores()) and all(map(is_alive, workers))
        time.sleep(0.5)
        os.killpg(parent.pid, sent)
        parent.wait(60)
        assert gone(workers)
        # Had the main module run in a worker too, "main" would be printed again.
        return parent.stdout.read(), parent.stderr.read().strip().rpartition("\n")[2]


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    "sent",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL],
)
def test_no_process_is_left_when_the_parent_is_stopped(tmp_path, sent):
    error = "KeyboardInterrupt" if sent == signal.SIGINT else ""
    assert interrupted(tmp_path, SCRIPT + FOREVER, sent) == ("", error)


@pytest.mark.thorough
def test_a_ctrl_c_that_the_parent_handles_leaves_the_workers_to_it(tmp_path):
    assert interrupted(tmp_path, SCRIPT + GRACEFUL, signal.SIGINT) == ("3\n", "")


def test_a_package_of_the_users_that_is_called_as_one_of_ours_does_not_come_first(tmp_path):
    """As under the installed script, whose path has the current directory last."""
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs/__init__.py").write_text("raise ImportError('of the user')")
    code = (
        f"import sys; sys.path[0:1] = [{str(ROOT)!r}]; sys.path.append('')\n"
        "from targetnet.envs import make_envs\n"
        "envs = make_envs('CartPole-v1', 2, seed=0, vectorization='async')\n"
        "print(envs.reset().observation.shape); envs.close()"
    )
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code.replace("[0:1] =", "[0:0] =")],
        cwd=tmp_path, env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("(2, 4)\n", "")


@pytest.mark.parametrize("call", ["Popen", "Pipe", "memfd_create"])
def test_workers_that_cannot_be_started_are_told_in_a_line(monkeypatch, call):
    def fails(*_, **__):
        raise OSError(24, "Too many open files")

    place = {"Popen": subprocess, "Pipe": async_driver, "memfd_create": os}[call]
    monkeypatch.setattr(place, call, fails)
    with pytest.raises(EnvError, match=r"cannot start the worker processes of env 'CartPole-v1'"):
        make_envs("CartPole-v1", 2, seed=0, vectorization="async")
