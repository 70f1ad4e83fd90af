"""An exported policy, loaded by its own runtime with nothing of ours, acts as the agent does."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from targetnet.agents.cli.main import main
from targetnet.agents.config.envs import training_envs
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.policy.export import FORMATS, ExportError, export
from targetnet.agents.policy.load import load_policy
from targetnet.agents.policy.trained_policy import trained as read
from targetnet.agents.run.agent_factory import agent_for
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.errors import RunDirError
from tests.gymnasium_versions import TAXI

CONFIG = DqnConfig(
    env_steps=600, hidden=(16, 16), batch_size=8, replay_capacity=2_000, learn_start=50,
    learn_period=2, dueling=True, layer_norm=True, eval_period=200, eval_episodes=2,
    final_eval_episodes=2, xla=False, ema_decay=0.99, learning_rate=0.01,
)  # fmt: skip

# Each is a program of its own; what it prints are the actions and the sums of q.
LOADERS = {
    "savedmodel": """
import tensorflow as tf
policy = tf.saved_model.load(out + "/model").signatures["serving_default"]
def run(x):
    got = policy(observation=tf.constant(x))
    return got["action"].numpy(), got["q"].numpy()
""",
    "frozen": """
import tensorflow.compat.v1 as tf
graph = tf.Graph()
with graph.as_default():
    definition = tf.GraphDef.FromString(open(out + "/policy.pb", "rb").read())
    assert not any("Variable" in node.op or "VarHandle" in node.op for node in definition.node)
    tf.import_graph_def(definition, name="")
session = tf.Session(graph=graph)
def run(x):
    return session.run(["action:0", "q:0"], {"observation:0": x})
""",
    "tflite": """
from ai_edge_litert.interpreter import Interpreter
policy = Interpreter(out + "/policy.tflite").get_signature_runner("serving_default")
def run(x):
    got = policy(observation=x)
    return got["action"], got["q"]
""",
    "onnx": """
import onnxruntime
session = onnxruntime.InferenceSession(out + "/policy.onnx")
def run(x):
    return session.run(["action", "q"], {"observation": x})
""",
}
PROGRAM = """
import sys
import numpy as np
out, observations, answers = sys.argv[1:]
{loader}
x = np.load(observations)
actions, q = run(x)
single = [run(x[i : i + 1])[0] for i in range(5)]  # the batch is free
assert [a.shape for a in single] == [(1,)] * 5
assert np.concatenate(single).tolist() == list(actions[:5])
assert "agents" not in sys.modules and "rl_core" not in sys.modules
np.savez(answers, actions=actions, q=q)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory, pool):
    with pool.open():
        return train(CONFIG, tmp_path_factory.mktemp("runs") / "run").run


@pytest.fixture(scope="module")
def observations():
    return np.random.default_rng(0).normal(size=(1_000, 4)).astype(np.float32)


def agent_actions(run, observations, *, averaged):
    envs = training_envs(CONFIG)
    envs.close()
    agent = agent_for(CONFIG, envs)
    agent.state.load_weights(read(RunDir.open(run), averaged=averaged).weights)
    return agent.greedy(observations)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("to", "averaged"),
    [
        ("tflite", False),
        ("onnx", True),
        *(pytest.param(to, False, marks=pytest.mark.slow) for to in ("savedmodel", "frozen")),
        *(pytest.param(to, to != "onnx", marks=pytest.mark.slow) for to in LOADERS),
    ],
)
def test_a_thousand_observations_get_the_same_actions(
    trained, observations, tmp_path, to, averaged
):
    out = export(trained, to, tmp_path / "out", averaged=averaged)
    assert json.loads((out / "policy.json").read_text())["input"] == {"observation": [4]}
    np.save(tmp_path / "x.npy", observations)
    program = PROGRAM.format(loader=LOADERS[to])
    arguments = [str(out), str(tmp_path / "x.npy"), str(tmp_path / "answers.npz")]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    got = np.load(tmp_path / "answers.npz")
    assert got["actions"].dtype == np.int64 and got["q"].shape == (1_000, 2)
    wanted = agent_actions(trained, observations, averaged=averaged)
    # Where two values are equal to the last bits, another runtime may order them otherwise.
    clear = np.abs(np.diff(got["q"], axis=1))[:, 0] > 1e-5
    assert clear.sum() > 990 and 0 < wanted.mean() < 1
    np.testing.assert_array_equal(got["actions"][clear], wanted[clear])


@pytest.mark.thorough
def test_a_saved_model_loaded_into_a_session_gives_the_same_actions(
    trained, observations, tmp_path
):
    """In this process; in one with nothing of ours in the slow run."""
    import tensorflow.compat.v1 as tf

    out = export(trained, "savedmodel", tmp_path / "out")
    with tf.Graph().as_default(), tf.Session() as session:
        model = tf.saved_model.load(session, ["serve"], str(out / "model"))
        signature = model.signature_def["serving_default"]
        names = [signature.outputs[name].name for name in ("action", "q")]
        feeds = {signature.inputs["observation"].name: observations}
        actions, q = session.run(names, feeds)
    assert actions.dtype == np.int64 and q.shape == (1_000, 2)
    wanted = agent_actions(trained, observations, averaged=False)
    clear = np.abs(np.diff(q, axis=1))[:, 0] > 1e-5
    assert clear.sum() > 990 and 0 < wanted.mean() < 1
    np.testing.assert_array_equal(actions[clear], wanted[clear])


def tflite(out):
    from ai_edge_litert.interpreter import Interpreter

    run = Interpreter(str(out / "policy.tflite")).get_signature_runner("serving_default")
    return lambda **inputs: run(**inputs)["action"]


def onnx(out):
    import onnxruntime

    session = onnxruntime.InferenceSession(out / "policy.onnx")
    return lambda **inputs: session.run(["action"], inputs)[0]


SHORT = {
    "env_steps": 300, "learn_start": 50, "hidden": (16,), "batch_size": 8, "learning_rate": 0.01,
    "replay_capacity": 500, "final_eval_episodes": 1, "xla": False,
}  # fmt: skip
DEEP = {"dueling": True, "noisy": True, "head_hidden": (8,)}
HEADS = {
    "implicit": {"head": "implicit", "tau_samples": 4, **DEEP},
    "fqf": {"head": "fqf", "fractions": 5, **DEEP},
    "categorical": {"head": "categorical", "v_min": 0.0, "v_max": 50.0, **DEEP},
    "quantile": {"head": "quantile", "quantiles": 7, **DEEP},
    "hl_gauss": {"head": "categorical", "loss": "hl_gauss", "v_min": 0.0, "v_max": 50.0, **DEEP},
    "chain": {"chain": 3, **DEEP},
    "heads": {"chain": 3, "chain_torso": "shared"},
    "gelu": {"activation": "gelu", **DEEP},
    "rollouts": {"rollout": 10, "num_envs": 4, "layer_norm": True},
}
WITHOUT_REPLAY = ("learn_start", "replay_capacity")


@pytest.mark.slow
@pytest.mark.parametrize(
    "head",
    [pytest.param(h, marks=() if h in ("quantile", "heads") else pytest.mark.slow) for h in HEADS],
)
def test_every_head_can_be_exported_without_its_noise(head, observations, tmp_path):
    settings = SHORT | HEADS[head]
    if head == "rollouts":
        settings = {name: of for name, of in settings.items() if name not in WITHOUT_REPLAY}
    run = train(DqnConfig(**settings), tmp_path / "run").run
    q = load_policy(run).q_values(observations)
    clear = np.abs(np.diff(q, axis=1))[:, 0] > 1e-4
    for to, loader in (("tflite", tflite), ("onnx", onnx)):
        act = loader(export(run, to, tmp_path / to))
        got = act(observation=observations)
        np.testing.assert_array_equal(got[clear], q.argmax(axis=1)[clear])
    assert clear.sum() > 900


@pytest.mark.slow
def test_an_exported_policy_takes_legal_actions_alone(tmp_path):
    """Taxi says which moves do something; its states are one-hot."""
    config = DqnConfig(env_id=TAXI, **SHORT)
    run = train(config, tmp_path / "run").run
    rng = np.random.default_rng(0)
    states = np.eye(500, dtype=np.float32)[rng.integers(500, size=200)]
    masks = rng.random((200, 6)) < 0.4
    masks[np.arange(200), rng.integers(6, size=200)] = True
    policy = load_policy(run)
    q = policy.q_values(states.argmax(axis=1))
    wanted = np.where(masks, q, -np.inf).argmax(axis=1)
    np.testing.assert_array_equal(policy.greedy(states, masks), wanted)
    assert (wanted != q.argmax(axis=1)).any()
    for to, loader in (("tflite", tflite), ("onnx", onnx)):
        out = export(run, to, tmp_path / to)
        described = json.loads((out / "policy.json").read_text())
        assert described["input"] == {"observation": [500], "action_mask": [6]}
        got = loader(out)(observation=states, action_mask=masks)
        np.testing.assert_array_equal(got, wanted)


def test_averaged_and_online_are_two_policies(trained, observations, pool):
    both = []
    for which in (False, True):
        both.append(agent_actions(trained, observations, averaged=which))
        pool.take_back()
    assert (both[0] != both[1]).any()


def test_safetensors_are_the_weights_by_name(trained, tmp_path):
    from safetensors.numpy import load_file

    out = export(trained, "safetensors", tmp_path / "out")
    got, wanted = load_file(out / "policy.safetensors"), RunDir.open(trained).load_weights()
    assert got.keys() == wanted.keys() and "torso/dense_0/w" in got
    assert all(np.array_equal(got[name], wanted[name]) for name in wanted)


def test_the_best_weights_are_those_of_the_best_evaluation(trained):
    best = read(RunDir.open(trained), best=True)
    checkpoint = CheckpointStore(trained / "checkpoints").best()
    assert best.env_step == checkpoint.host["loop"]["env_step"]
    end = RunDir.open(trained).load_weights()
    assert best.weights.keys() == end.keys()
    for name, value in best.weights.items():
        np.testing.assert_array_equal(value, checkpoint.variables[f"online/{name}"])
    assert any((best.weights[name] != end[name]).any() for name in end)


def test_a_run_that_was_killed_gives_the_weights_of_its_last_checkpoint(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "killed")
    end = RunDir.open(trained).load_weights()
    (tmp_path / "killed" / "weights.safetensors").unlink()
    got = read(RunDir.open(tmp_path / "killed")).weights
    assert all(np.array_equal(got[name], end[name]) for name in end)


def test_a_run_that_goes_on_after_its_end_gives_what_it_has_learned_since(trained, tmp_path):
    directory, seen = RunDir(tmp_path / "longer"), {}
    shutil.copytree(trained, directory.path)

    def look(agent, tick):
        if tick.env_step == 890:
            seen["last"] = CheckpointStore(directory.checkpoints).latest()
            seen.update({of: read(directory, averaged=of) for of in (False, True)})

    resume(directory.path, changes={"env_steps": 900, "checkpoint_steps": 100}, on_tick=look)
    step, last = seen["last"].host["loop"]["env_step"], seen["last"].variables
    assert step > 600
    for averaged, scope in {False: "online", True: "ema"}.items():
        assert seen[averaged].env_step == step
        for name, value in seen[averaged].weights.items():
            np.testing.assert_array_equal(value, last[f"{scope}/{name}"])


def test_an_action_is_the_envs_own_number(tmp_path):
    """Of an env whose actions do not begin at 0."""
    import gymnasium as gym

    class FromThree(gym.ActionWrapper):
        def __init__(self, env):
            super().__init__(env)
            self.action_space = gym.spaces.Discrete(2, start=3)

        def action(self, action):
            return int(action) - 3

    gym.register("FromThree-v0", lambda **k: FromThree(gym.make("CartPole-v1", **k)))
    try:
        config = CONFIG.model_copy(update={"env_id": "FromThree-v0", "env_steps": 100})
        run = train(config, tmp_path / "run").run
        out = export(run, "onnx", tmp_path / "out")
        import onnxruntime

        session = onnxruntime.InferenceSession(out / "policy.onnx")
        x = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
        assert set(session.run(["action"], {"observation": x})[0]) <= {3, 4}
    finally:
        gym.registry.pop("FromThree-v0")


def test_every_format_is_tested():
    assert set(FORMATS) == {*LOADERS, "safetensors"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["RUN", "out", "--to", "onxx"], "did you mean 'onnx'"),
        (["none", "out", "--to", "onnx"], "is not a run directory"),
        (["RUN", "taken", "--to", "onnx"], "taken already exists"),
        (["RUN", "file/out", "--to", "safetensors"], "cannot write file/out"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    trained, tmp_path, monkeypatch, capsys, arguments, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").write_text("x")
    (tmp_path / "file").write_text("x")
    before = sorted(tmp_path.rglob("*"))
    assert main(["export", *[str(trained) if a == "RUN" else a for a in arguments]]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_missing_library_is_named_with_its_extra(trained, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(ExportError, match=r"tf2onnx: pip install 'targetnet\[export\]'"):
        export(trained, "onnx", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "converter"), [
    ("tflite", "tensorflow.lite.TFLiteConverter.from_saved_model"),
    ("onnx", "tf2onnx.convert.from_graph_def"),
])  # fmt: skip
def test_what_a_converter_does_not_take_is_told_in_a_line(
    trained, tmp_path, monkeypatch, name, converter
):
    """As an operation of one's own network that the format lacks."""

    def fails(*_, **__):
        raise ValueError("no operation Svd\nin this format")

    monkeypatch.setattr(converter, fails)
    with pytest.raises(ExportError, match=rf"converted to {name} \(no operation Svd in this"):
        export(trained, name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.thorough
def test_without_averages_there_are_none_to_export(tmp_path):
    config = CONFIG.model_copy(update={"ema_decay": 0.0, "env_steps": 100})
    run = train(config, tmp_path / "run").run
    with pytest.raises(RunDirError, match="ema_decay"):
        export(run, "frozen", tmp_path / "out", averaged=True)
