"""The digest of an agent: all of its past that matters for its future, and nothing else."""

import os
import subprocess
import sys

import numpy as np
import pytest


def digest(agent):
    return agent.state.digest(tick=1)


@pytest.mark.thorough
def test_the_same_history_has_the_same_digest(lab):
    first, second = lab.filled(), lab.filled()
    for agent in (first, second):
        agent.learn(5)
    assert digest(first) == digest(second) == digest(first)


@pytest.mark.thorough
def test_what_lies_in_memory_that_was_never_written_does_not_count(own_agents, lab, monkeypatch):
    import tensorflow.compat.v1 as tf

    clean = lab.agent(num_envs=2)

    def garbage(shape, dtype):
        return tf.fill(shape, tf.cast(True if dtype == tf.bool else 77, dtype))

    monkeypatch.setattr(tf.raw_ops, "Empty", garbage)
    dirty = lab.agent(num_envs=2)
    for steps in (0, 1, 5, 80):  # empty, one row, some, around the ring
        lab.fill(clean, steps, seed=steps)
        lab.fill(dirty, steps, seed=steps)
        assert digest(clean) == digest(dirty)


@pytest.mark.parametrize("scope", ["online", "target"])
def test_every_weight_counts(lab, scope):
    agent = lab.filled()
    seen = {digest(agent)}
    for name, value in lab.weights(agent, scope).items():
        changed = value.copy()
        changed.flat[-1] = np.nextafter(changed.flat[-1], np.float32(9))
        lab.put(agent, scope, {name: changed})
        seen.add(digest(agent))
    assert len(seen) == 1 + len(lab.weights(agent, scope))


def test_optimizer_state_target_age_and_updates_count(lab):
    agent = lab.filled()
    before = digest(agent)
    weights = lab.weights(agent, "online"), lab.weights(agent, "target")
    agent.learn()
    lab.put(agent, "online", weights[0])
    lab.put(agent, "target", weights[1])
    assert digest(agent) != before


def test_every_variable_of_a_checkpoint_counts(lab, monkeypatch):
    agent = lab.filled()
    saved, seen = agent.state.read(), {digest(agent)}
    for name, value in saved.variables.items():
        changed = np.array(value)
        changed.reshape(-1).view(np.uint8)[0] ^= 1  # one bit
        one_other = saved._replace(variables=saved.variables | {name: changed})
        monkeypatch.setattr(agent.state, "read", lambda one_other=one_other: one_other)
        seen.add(digest(agent))
    assert len(seen) == 1 + len(saved.variables)


def test_every_part_of_a_row_counts(lab, pool):
    rows = [
        {"observation": [1, 2], "reward": 0.5, "terminated": False, "autoreset": False},
        {"observation": [1, 3], "reward": 0.5, "terminated": False, "autoreset": False},
        {"observation": [1, 2], "reward": 0.6, "terminated": False, "autoreset": False},
        {"observation": [1, 2], "reward": 0.5, "terminated": True, "autoreset": False},
        {"observation": [1, 2], "reward": 0.5, "terminated": False, "autoreset": True},
    ]  # fmt: skip
    digests = set()
    for row in rows:
        agent = lab.agent()
        lab.step(agent, 0.0, autoreset=True, epsilon=0.0)
        lab.step(agent, **row, epsilon=0.0)
        digests.add(digest(agent))
        pool.take_back()  # the next row's agent is this one, as good as new
    assert len(digests) == len(rows)


def test_overrides_counters_and_the_arm_count(lab):
    agent = lab.filled(freeze=[{"exempt": ["head"], "updates": 9}, {"exempt": [], "updates": 9}])
    seen = [digest(agent), agent.state.digest(tick=2)]
    agent.hyperparameters["sync_period"] = agent.hyperparameters["sync_period"]
    seen.append(digest(agent))
    agent.hyperparameters["sync_period"] = 3
    seen.append(digest(agent))
    agent.learner.freeze.position = (0, 4)
    seen.append(digest(agent))
    assert len(set(seen)) == 5
    agent.learner.freeze.position = (0, 0)
    agent.hyperparameters["sync_period"] = "auto"
    assert digest(agent) == seen[0]


@pytest.mark.thorough
def test_what_is_restored_has_the_digest_the_live_values_and_the_arm_of_what_was_saved(lab):
    settings = {"freeze": [{"exempt": ["head"], "updates": 3}, {"exempt": [], "updates": 9}]}
    saved, restored = lab.filled(**settings), lab.agent(**settings)
    saved.hyperparameters["sync_period"] = 7
    saved.learn(5)
    contents = saved.state.contents
    restored.state.restore(saved.state.read(), [(0, contents.time_steps(0, contents.written()))])
    assert restored.hyperparameters.overrides() == {"sync_period": 7}
    assert restored.learner.freeze.position == (1, 2)  # 3 updates of the first arm, 2 of the next
    assert digest(restored) == digest(saved)


def test_looking_and_evaluating_do_not_count(lab):
    agent = lab.filled()
    before = digest(agent)
    agent.greedy(np.zeros((3, 2), np.float32))
    agent.inspect()
    agent.state.weights()
    agent.state.contents.time_steps(0, 3)
    assert digest(agent) == before


ON_CORES = """
import os, sys
os.sched_setaffinity(0, set(map(int, sys.argv[1:])))
from targetnet.agents import DqnConfig, train
config = DqnConfig(
    env_id="CartPole-v1", env_steps=900, learn_start=300, hidden=(64, 64), learn_period=8,
    updates_per_learn=8, final_eval_episodes=1,
)
train(config, "run" + str(len(sys.argv)))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="picks cores as Linux has it")
def test_one_thread_gives_the_same_bits_however_many_cores_there_are(tmp_path):
    cores = sorted(os.sched_getaffinity(0))
    for some in (cores[:1], cores):
        command = [sys.executable, "-c", ON_CORES, *map(str, some)]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    digests = {path.read_text() for path in tmp_path.glob("run*/digest.json")}
    assert len(list(tmp_path.glob("run*"))) == min(len(cores), 2)
    assert len(digests) == 1
