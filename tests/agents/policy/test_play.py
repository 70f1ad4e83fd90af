"""Videos of a policy: every frame of every episode, whole or not there."""

import shutil
import sys

import gymnasium as gym
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer

from targetnet.agents.cli.main import main
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.policy.play import PlayError, play
from targetnet.agents.run.train import resume, train
from targetnet.rl_core.board.read_events import read_curves
from targetnet.rl_core.control.files import ControlFiles, RunLock
from targetnet.rl_core.errors import EnvError

CONFIG = DqnConfig(
    env_steps=300, hidden=(8,), batch_size=8, replay_capacity=500, learn_start=50,
    eval_period=200, eval_episodes=1, final_eval_episodes=1, xla=False,
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train(CONFIG, tmp_path_factory.mktemp("runs") / "run").run


# imageio-ffmpeg leaves its pipes open if ffmpeg has ended by the time that all frames are read.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("kind", ["mp4", "gif"])
def test_a_video_has_every_frame_and_the_same_seed_gives_the_same_episodes(trained, tmp_path, kind):
    import imageio.v2 as imageio

    video = tmp_path / f"a.{kind}"
    seen = []
    returns = play(trained, 2, video=video, on_episode=seen.append)
    assert [e.episode_return for e in seen] == returns and len(returns) == 2
    frames = imageio.mimread(video, memtest=False)
    # The first picture of each episode, and one after every step.
    wanted = sum(e.length + 1 for e in seen)
    if kind == "mp4":
        assert len(frames) == wanted
    assert 0 < len(frames) <= wanted  # a GIF leaves out pictures that did not change
    assert frames[0].shape[:2] == (400, 600) and np.std(frames[0]) > 0
    assert play(trained, 2, video=tmp_path / f"b.{kind}") == returns
    assert play(trained, 2, video=tmp_path / f"b.{kind}", seed=7) != returns


def test_to_board_is_an_animation_in_the_images_tab(trained, capsys):
    assert main(["play", str(trained), "--to-board"]) == 0
    assert "episode 1: return" in capsys.readouterr().out
    (path,) = trained.glob("events.*.play")
    events = list(EventFileLoader(str(path)).Load())
    (value,) = [v for e in events for v in e.summary.value]
    assert value.tag == "play/episode" and value.metadata.plugin_data.plugin_name == "images"
    assert value.tensor.string_val[2].startswith(b"GIF89a")
    assert events[-1].step == CONFIG.env_steps  # where the weights are of
    assert not any(event.HasField("session_log") for event in events)


def test_an_animation_is_under_the_run_itself_and_takes_no_point_of_its_curves(trained):
    assert main(["play", str(trained), "--to-board", "--best"]) == 0
    runs = EventMultiplexer(tensor_size_guidance={"scalars": 0})  # TensorBoard's slow reader
    runs.AddRunsFromDirectory(str(trained.parent)).Reload()
    assert [*runs.Runs()] == ["run"]
    # The best weights are of the only evaluation during the training.
    assert 200 in [event.step for event in runs.Tensors("run", "play/episode")]
    written = read_curves(trained, ["episode/return"])["episode/return"]
    shown = [e.step for e in runs.Tensors("run", "episode/return")]
    assert shown == [step for step, _ in written] and len(written) > 5


@pytest.mark.thorough
def test_a_resumed_run_keeps_its_animation_and_its_curves(trained, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    assert main(["play", str(run), "--to-board"]) == 0
    played = {path: path.read_bytes() for path in run.glob("events.*.play")}
    before = read_curves(run, ["learn/updates"])["learn/updates"]
    resume(run, CONFIG.model_copy(update={"env_steps": 350}))
    assert played and {path: path.read_bytes() for path in run.glob("events.*.play")} == played
    assert read_curves(run, ["learn/updates"])["learn/updates"][: len(before)] == before


def test_a_run_at_work_gets_no_animation_because_its_own_curves_would_stop(trained, capsys):
    lock = RunLock(ControlFiles(trained))
    try:
        assert main(["play", str(trained), "--to-board"]) == 2
    finally:
        lock.release()
    err = capsys.readouterr().err
    assert "is at work" in err and "--video" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--video", "a.avi"], "a video is .mp4 or .gif"),
        (["--video", "none/a.mp4"], "cannot write none/a.mp4"),
        (["--video", "none/a.gif"], "cannot write none/a.gif"),
        (["--episodes", "0"], "--episodes must be a whole number >= 1"),
        (["--ema", "--video", "a.mp4"], "ema_decay"),
        ([], "there is no display"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    trained, tmp_path, monkeypatch, capsys, arguments, said
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert main(["play", str(trained), *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_is_named_with_its_extra(trained, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio.v2", None)
    with pytest.raises(PlayError, match=r"pip install 'targetnet\[video\]'"):
        play(trained, video=tmp_path / "a.mp4")


def test_an_env_that_needs_a_package_to_draw_names_the_extra(trained, monkeypatch):
    """Gymnasium's own error, which is none of Python's for imports."""
    from gymnasium.envs.classic_control import CartPoleEnv

    def render(self):
        raise gym.error.DependencyNotInstalled("pygame is not installed")

    monkeypatch.setattr(CartPoleEnv, "render", render)
    with pytest.raises(PlayError, match=r"pygame is not installed\).*'targetnet\[video\]'"):
        play(trained, to_board=True)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (gym.error.DependencyNotInstalled("no pygame"), r"no pygame\).*'targetnet\[video\]'"),
        (type("error", (Exception,), {"__module__": "pygame"})("no device"), "no window can be"),
    ],
    ids=["no package", "no display"],
)
def test_an_env_that_draws_in_its_first_reset_is_told_in_a_line(trained, monkeypatch, error, said):
    """In a window CartPole draws there, before a frame is asked for."""
    from gymnasium.envs.classic_control import CartPoleEnv

    usual = CartPoleEnv.reset

    def reset(self, **how):
        if self.render_mode == "human":
            raise error
        return usual(self, **how)

    monkeypatch.setattr(CartPoleEnv, "reset", reset)
    monkeypatch.setenv("DISPLAY", ":99")
    with pytest.raises(PlayError, match=said):
        play(trained)


def test_a_mistake_of_the_envs_render_is_told_in_a_line(trained, monkeypatch):
    from gymnasium.envs.classic_control import CartPoleEnv

    monkeypatch.setattr(CartPoleEnv, "render", lambda self: 1 / 0)
    with pytest.raises(PlayError, match=r"render failed \(ZeroDivisionError: division by zero\)"):
        play(trained, to_board=True)


def test_an_env_without_pictures_is_said_to_have_none(tmp_path):
    import gymnasium as gym

    class Blind(gym.Wrapper):
        def render(self):
            return None

    gym.register("Blind-v0", lambda **k: Blind(gym.make("CartPole-v1", **k)))
    try:
        config = CONFIG.model_copy(update={"env_id": "Blind-v0", "env_steps": 60})
        run = train(config, tmp_path / "run").run
        with pytest.raises(EnvError, match="'Blind-v0' draws no pictures"):
            play(run, video=tmp_path / "a.mp4")
        assert [path.name for path in tmp_path.iterdir()] == ["run"]
    finally:
        gym.registry.pop("Blind-v0")
