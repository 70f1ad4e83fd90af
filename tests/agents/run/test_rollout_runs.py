"""Runs that learn from rollouts: killed, resumed, steered, repeated, in a population."""

import pytest

from targetnet.agents.config.members import as_members
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.population.train import train_population
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.control.files import ControlFiles
from tests.agents.run.interrupting import Crash, crash_at, curves, setting

SHORT = {
    "rollout": 16, "num_envs": 4, "epochs": 2, "batch_size": 16, "env_steps": 700, "hidden": (8,),
    "layer_norm": True, "loss": "squared", "q_lambda": 0.8, "learning_rate": 0.01, "xla": False,
    "log_period": 50, "eval_period": 300, "eval_episodes": 1, "final_eval_episodes": 1,
    "epsilon": {"schedule": "linear", "start": 1.0, "end": 0.1, "steps": 400},
    "checkpoint_seconds": 0, "checkpoint_steps": 90, "past_states": 2,
}  # fmt: skip
IN_GRAPH = {
    "loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 10, "eval_period": 10_000,
}  # fmt: skip
ARMS = [{"exempt": ["head"], "updates": 7}, {"exempt": ["torso"], "updates": 5}]
KINDS = {
    "plain": {"xla": True},
    "in the graph": IN_GRAPH,
    "one env, freezing": {"num_envs": 1, "rollout": 32, "freeze": ARMS, "ema_decay": 0.9},
    "in the graph, compiled, freezing": IN_GRAPH | {"xla": True, "freeze": ARMS},
}
KINDS_PARAMETERS = [
    pytest.param(how, id=kind, marks=() if i < 2 else pytest.mark.slow)
    for i, (kind, how) in enumerate(KINDS.items())
]
steer = setting({150: ("q_lambda", 0.3), 310: ("epsilon", 0.7), 430: ("learning_rate", 0.002)})


@pytest.mark.slow
@pytest.mark.parametrize("settings", KINDS_PARAMETERS)
def test_killed_in_the_middle_of_a_rollout_and_resumed_it_is_the_same_run(tmp_path, pool, settings):
    config = DqnConfig(**SHORT | settings)
    straight = train(config, tmp_path / "straight", on_tick=steer)
    pool.take_back()
    broken = tmp_path / "broken"
    with pytest.raises(Crash):
        train(config, broken, on_tick=crash_at(231, steer))
    with pytest.raises(Crash):
        resume(broken, on_tick=crash_at(505, steer))
    outcome = resume(broken, on_tick=steer)
    pool.take_back()
    assert outcome.digest == straight.digest and outcome.updates == straight.updates > 50
    assert curves(broken, complete=False) == curves(straight.run, complete=False)
    traces = [ControlFiles(run).trace.read_bytes() for run in (broken, straight.run)]
    assert traces[0] == traces[1]
    verdict = repeat(broken)
    assert verdict.identical and verdict.digest == straight.digest


@pytest.mark.slow
def test_phases_are_a_rollout_apart_whatever_the_resets_and_curves_know_no_target(tmp_path):
    seen = []

    def on_tick(agent, tick):
        seen.append(agent.updates)

    outcome = train(DqnConfig(**SHORT), tmp_path / "run", on_tick=on_tick)
    # 8 updates after time steps 17, 33, ...: each needs the outcome of the last step of a rollout.
    assert seen == [8 * (t // 16) for t in range(len(seen))]
    assert outcome.updates == seen[-1] > 60
    tags = curves(outcome.run)
    assert "learn/q_mean" in tags
    assert not [tag for tag in tags if "target" in tag or "sync" in tag]


@pytest.mark.slow
def test_members_have_the_bits_that_they_have_alone(tmp_path):
    of = as_members(DqnConfig(**SHORT | {"env_steps": 300}), ("q_lambda=0.2,0.9",), 1)
    train_population(of, tmp_path / "run")
    together = {p.name: RunDir.open(p).load_digest().digest for p in (tmp_path / "run").glob("m*")}
    alone = {name: train(c, tmp_path / f"alone-{name}").digest for name, c in of.configs.items()}
    assert together == alone and len(set(alone.values())) == 2
