"""Learning that diverges ends with the update it happened at, which is not made."""

import json

import numpy as np
import pytest

from targetnet.agents.cli.main import main
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.learner import diverged
from targetnet.agents.dqn.state import SavedAgent
from targetnet.agents.loops.compiled import compiled_loop
from targetnet.agents.loops.concurrent import concurrent_loop
from targetnet.agents.loops.plain import LoopState, training_loop
from targetnet.envs import make_envs
from targetnet.envs.in_graph.resident import ResidentEnvs
from targetnet.envs.in_graph.table import make_rules
from targetnet.rl_core.errors import Diverged
from targetnet.rl_core.graph.finite import LARGEST_RATE
from tests.agents.pool import POOL

EVERYTHING = {
    "prioritized": True,
    "ema_decay": 0.9,
    "averaged_targets": 2,
    "tau": 0.5,
    "sync_period": 3,
    "freeze": ({"exempt": ("head",), "updates": 2}, {"exempt": ("torso",), "updates": 3}),
}
WAYS = {
    "single": {},
    "single, everything": EVERYTHING,
    "fused": {"updates_per_learn": 4},
    "fused, everything": EVERYTHING | {"updates_per_learn": 4},
    "compiled one": {"xla": True},
    "compiled, everything": EVERYTHING | {"xla": True, "updates_per_learn": 4},
}


def with_a_huge_reward(lab, **settings):
    """Its square is beyond float32; a batch has it now and then."""
    agent = lab.filled(loss="squared", batch_size=2, **settings)
    lab.step(agent, [0.5, 0.5], autoreset=True)
    lab.step(agent, [0.1, 0.2], reward=3e38)
    lab.step(agent, [0.3, 0.2])
    return agent


def not_finite(agent):
    """Names of variables that hold anything else."""
    kept = agent.state.read().variables.items()
    return [name for name, v in kept if v.dtype.kind == "f" and not np.isfinite(v).all()]


def spoil(lab, agent):
    """Weights with which every output is beyond float32."""
    weights = lab.weights(agent, "online")
    lab.put(agent, "online", {name: np.full(v.shape, 1e30) for name, v in weights.items()})
    return weights


ALWAYS = {"single, everything", "fused, everything", "compiled one"}


def always(name, names):
    return pytest.param(name, marks=() if name in names else pytest.mark.slow)


@pytest.mark.cases(0, 2)
@pytest.mark.parametrize("way", [always(way, ALWAYS) for way in WAYS])
def test_the_update_that_diverges_is_not_made_and_all_is_as_after_the_one_before(lab, way):
    agent = with_a_huge_reward(lab, **WAYS[way])
    rows, fresh = (
        [(0, agent.state.contents.time_steps(0, agent.state.contents.written()))],
        agent.state.read(),
    )
    for first in range(0, 900, 100):  # the count decides what is drawn
        counted = fresh.variables | {"counters/updates": np.int64(first)}
        state = SavedAgent(counted, fresh.host | {"updates": first})
        agent.state.restore(state, rows)
        with pytest.raises(Diverged, match="the loss is inf"):
            agent.learn(200)
        done = agent.updates
        if done - first > 3:
            break
    assert done - first > 3 and not_finite(agent) == []
    digest, age, position = (
        agent.state.digest(),
        agent.learner.target_age,
        agent.learner.freeze.position,
    )
    with pytest.raises(Diverged, match=f"update {done + 1}:"):
        agent.learn(5, stats=True)
    assert agent.state.digest() == digest
    agent.state.restore(state, rows)
    agent.learn(done - first)
    assert agent.state.digest() == digest
    assert (agent.learner.target_age, agent.learner.freeze.position) == (age, position)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"head": "categorical"}, marks=pytest.mark.slow),
        pytest.param({"head": "quantile"}, marks=pytest.mark.slow),
        pytest.param({"head": "implicit"}, marks=pytest.mark.slow),
        pytest.param({"munchausen": True}, marks=pytest.mark.slow),
        {"double": True, "noisy": True},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_every_kind_of_learning_stops_where_its_values_leave_float32(lab, settings):
    agent = lab.filled(updates_per_learn=3, **settings)
    agent.learn(3)
    good = spoil(lab, agent)
    digest = agent.state.digest()
    for updates in (1, 3):  # a single one, and fused ones
        with pytest.raises(Diverged, match="update 4:"):
            agent.learn(updates)
        assert agent.state.digest() == digest and not_finite(agent) == []
    lab.put(agent, "online", good)
    assert np.isfinite(agent.learn(3, stats=True).loss) and agent.updates == 6


@pytest.mark.thorough
def test_no_learning_rate_carries_a_weight_out_of_float32(lab):
    agent = lab.filled(updates_per_learn=3, loss="squared")
    agent.hyperparameters["max_grad_norm"] = 1e30
    rows, state = [(0, agent.state.contents.time_steps(0, 50))], agent.state.read()
    for updates in (1, 3):
        agent.state.restore(state, rows)
        agent.hyperparameters["learning_rate"] = LARGEST_RATE
        with pytest.raises(Diverged):
            for _ in range(10):
                agent.learn(updates)
        assert agent.updates == 1 and not_finite(agent) == []
        largest = max(np.abs(value).max() for value in agent.state.weights().values())
        assert 0.5 * LARGEST_RATE < largest < 2 * LARGEST_RATE
        agent.state.restore(state, rows)
        agent.hyperparameters["learning_rate"] = "auto"
        digest = agent.state.digest()
        agent.hyperparameters["learning_rate"] = 3e38
        with pytest.raises(Diverged, match=r"learning rate above 1e\+18.*learning_rate 3e\+38"):
            agent.learn(updates)
        agent.hyperparameters["learning_rate"] = "auto"
        assert agent.state.digest() == digest


def test_the_line_says_what_where_and_what_to_try():
    config = DqnConfig(loss="squared")
    assert str(diverged([3.0, np.nan, 1.0], 1233, 10.0, config)) == (
        "learning diverged at update 1,234: the gradient norm is nan (learning_rate 10); "
        "the weights are those of update 1,233. "
        "Try a smaller learning_rate or max_grad_norm, or loss = huber"
    )
    text = str(diverged([np.inf, np.inf, 1.0], 0, 1e-3, DqnConfig(loss="huber")))
    assert "the loss is inf and the gradient norm is inf" in text and "huber" not in text
    text = str(diverged([np.inf, np.inf, 1.0], 0, 1e-3, DqnConfig(loss="huber", max_grad_norm=0.0)))
    assert text.endswith("Try a smaller learning_rate or max_grad_norm > 0 (it is off)")


# Loops.

LOOP = {
    "env_steps": 400,
    "hidden": (8,),
    "batch_size": 8,
    "replay_capacity": 300,
    "learn_start": 50,
    "learn_period": 8,
    "updates_per_learn": 2,
    "learning_rate": 0.01,
    "loss": "squared",
    "xla": False,
}
AT = 200  # env step from which on learning diverges
RATES = {"schedule": "piecewise", "points": [[0, 0.01], [AT, 0.01], [AT + 1, 1e38]]}


def until_it_diverges(loop, **settings):
    """The agent, and where its loop was."""
    config = DqnConfig(**(LOOP | {"loop": loop} | settings))
    rules = make_rules("InGraph/CartPole-v1") if loop == "compiled" else None
    if rules:
        envs = ResidentEnvs("InGraph/CartPole-v1", rules, config.num_envs)
    else:
        envs = make_envs("CartPole-v1", config.num_envs, seed=config.seed)
    agent = POOL.agent(
        config, envs.observation_shape, envs.observation_dtype, envs.num_actions, rules=rules
    )
    loops = {"plain": training_loop, "concurrent": concurrent_loop, "compiled": compiled_loop}
    state, ticks = LoopState(), []
    with pytest.raises(Diverged) as caught:
        for tick in loops[loop](agent, envs, state):
            ticks.append(tick)
            if tick.env_step >= AT:
                agent.hyperparameters["learning_rate"] = 1e38
    envs.close()
    return agent, state, ticks, caught.value


@pytest.mark.slow
def test_the_compiled_loop_stops_within_the_time_step():
    freeze = ({"exempt": ("head",), "updates": 3}, {"exempt": ("torso",), "updates": 4})
    agent, state, ticks, error = until_it_diverges("compiled", chunk=60, freeze=freeze)
    assert AT <= ticks[-1].env_step <= state.env_step == error.tick.env_step < AT + 60
    # Of the last time step there is the row, as in the plain loop, and no env step any more.
    assert agent.state.contents.written() == state.tick + 1
    assert state.env_step % 8 == 0 and state.clock.age == 0
    assert agent.updates == 2 * sum(step % 8 == 0 for step in range(50, state.env_step))
    assert not_finite(agent) == [] and f"update {agent.updates + 1}:" in str(error)
    position, agent.learner.freeze.position = agent.learner.freeze.position, (0, 0)
    assert (
        sum(updates for _, updates in agent.learner.freeze.phases(agent.updates)) == agent.updates
    )
    assert agent.learner.freeze.position == position


@pytest.mark.slow  # the rule of the test above, at the first update of all
def test_updates_before_the_one_that_diverges_in_a_chunk_are_made():
    rates = {"learning_rate": 1e15, "max_grad_norm": 1e30}
    agent, state, ticks, _ = until_it_diverges("compiled", chunk=100, **rates)
    assert agent.updates == 1 and not ticks and state.env_step == 56
    assert not_finite(agent) == [] and np.abs(agent.state.weights()["head/q/w"]).max() > 1e14


@pytest.mark.slow  # in the default run a run of the plain loop diverges, below
def test_the_concurrent_loop_stores_what_it_counted():
    agent, state, _, error = until_it_diverges("concurrent")
    assert agent.state.contents.written() == state.tick
    assert not_finite(agent) == [] and f"update {agent.updates + 1}:" in str(error)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "loop", [always(loop, {"plain"}) for loop in ("plain", "concurrent", "compiled")]
)
def test_a_run_that_diverges_ends_with_one_line_and_does_so_again_when_it_goes_on(
    tmp_path, capsys, loop
):
    env = "InGraph/CartPole-v1" if loop == "compiled" else "CartPole-v1"
    config = tmp_path / "own.toml"
    lines = [f"{name} = {json.dumps(value)}" for name, value in (LOOP | {"env_id": env}).items()]
    more = f'loop = "{loop}"\nchunk = 40\ncheckpoint_steps = 50\nfinal_eval_episodes = 1\n'
    rate = f"{{ schedule = 'piecewise', points = {RATES['points']} }}"
    text = "\n".join(lines).replace("learning_rate = 0.01", f"learning_rate = {rate}")
    config.write_text(f"{text}\n{more}")
    run = tmp_path / "run"

    def went(*arguments):
        assert main(arguments) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("targetnet: learning diverged at update ")
        digest = json.loads((run / "digest.json").read_text())
        assert f"update {digest['update'] + 1:,}:" in line and digest["env_step"] >= AT
        assert json.loads((run / "control/state.json").read_text())["status"] == "failed"
        assert not (run / "result.json").exists()
        return line, digest, (run / "weights.safetensors").read_bytes()

    first = went("train", str(config), "--run", str(run))
    assert [*(run / "checkpoints").iterdir()]
    assert went("resume", str(run)) == first
