"""Tianshou's agents as a worker.

{"kind": "train", "learn_period": 1, ...}      DQN on one CartPole-v1: an epoch of the
                                               library's own trainer each time
{"kind": "learn", "config": {...}, ...}        updates alone, from a replay full of random
                                               rows; of the agent that our config describes
"""

from __future__ import annotations

from typing import Any

import numpy as np
from protocol import Work, serve, use_checker

PACKAGES = ("tianshou", "torch", "gymnasium", "numpy")
_EPISODE = 100  # rows, where there is no env
_COSINES = 64  # in the embedding of a fraction; ours has as many


def training(setup: dict[str, Any]) -> Work:
    import gymnasium
    from tianshou.algorithm import DQN
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OffPolicyTrainer, OffPolicyTrainerParams
    from tianshou.utils.net.common import Net

    use_checker(setup["checker"])
    envs = DummyVectorEnv([lambda: gymnasium.make("CartPole-v1")])
    space = envs.action_space[0]
    algorithm = DQN(
        policy=DiscreteQLearningPolicy(
            model=Net(state_shape=(4,), action_shape=2, hidden_sizes=setup["hidden"]),
            action_space=space,
            eps_training=setup["epsilon"],
        ),
        optim=AdamOptimizerFactory(lr=1e-3),
        gamma=0.99,
        target_update_freq=setup["sync_period"],
        is_double=False,
        huber_loss_delta=1.0,
    )
    buffer = VectorReplayBuffer(setup["capacity"], 1)
    collector = Collector(algorithm, envs, buffer, exploration_noise=True)
    collector.reset()
    collector.collect(n_step=setup["learn_start"])
    params = OffPolicyTrainerParams(
        training_collector=collector,
        collection_step_num_env_steps=setup["learn_period"],
        update_step_num_gradient_steps_per_sample=setup["updates_per_learn"]
        / setup["learn_period"],
        batch_size=setup["batch_size"],
        show_progress=False,
        verbose=False,
    )
    trainer = OffPolicyTrainer(algorithm, params)
    trainer.reset(reset_collectors=False)

    def run(count: int) -> tuple[int, int]:
        env_steps, updates = trainer._env_step, algorithm._iter
        params.epoch_num_steps = count
        trainer.execute_epoch()
        return trainer._env_step - env_steps, algorithm._iter - updates

    run(setup["warm_up"])
    return Work(run, setup["learn_period"], PACKAGES)


def learning(setup: dict[str, Any]) -> Work:
    from tianshou.utils.torch_utils import policy_within_training_step

    config = setup["config"]
    algorithm = algorithm_of(config, tuple(setup["shape"]), setup["actions"])
    buffer = buffer_of(config)
    fill(buffer, config["replay_capacity"], tuple(setup["shape"]), setup["actions"])

    def run(count: int) -> tuple[int, int]:
        updates = algorithm._iter
        with policy_within_training_step(algorithm.policy):
            for _ in range(count):
                algorithm.update(buffer, config["batch_size"])
        return 0, algorithm._iter - updates

    run(setup["warm_up"])
    return Work(run, 1, PACKAGES)


def algorithm_of(config: dict[str, Any], shape: tuple[int, ...], actions: int) -> Any:
    """The agent that has the config's head; those with distributions always are double."""
    import gymnasium
    from tianshou.algorithm import C51, DQN, IQN, QRDQN, RainbowDQN
    from tianshou.algorithm.modelfree.c51 import C51Policy
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.modelfree.iqn import IQNPolicy
    from tianshou.algorithm.modelfree.qrdqn import QRDQNPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.discrete import ImplicitQuantileNetwork, NoisyLinear

    space = gymnasium.spaces.Discrete(actions)
    settings = {
        "optim": AdamOptimizerFactory(lr=config["learning_rate"]),
        "gamma": config["discount"],
        "n_step_return_horizon": config["n_step"],
        "target_update_freq": config["sync_period"],
    }

    def net(numbers: int, **more: Any) -> Any:
        """With so many numbers for each action; streams have the head's layers."""
        if config["dueling"]:
            linear = {"linear_layer": NoisyLinear} if config["noisy"] else {}
            stream = {"hidden_sizes": config["head_hidden"]} | linear
            more |= {"dueling_param": (stream, stream)}
        hidden = config["hidden"]
        return Net(
            state_shape=shape, action_shape=actions, hidden_sizes=hidden, num_atoms=numbers, **more
        )

    match config["head"]:
        case "scalar":
            return DQN(
                policy=DiscreteQLearningPolicy(model=net(1), action_space=space),
                is_double=config["double"],
                huber_loss_delta=None if config["loss"] == "squared" else 1.0,
                **settings,
            )
        case "categorical":
            atoms = {
                "num_atoms": config["atoms"], "v_min": config["v_min"], "v_max": config["v_max"],
            }  # fmt: skip
            model = net(config["atoms"], softmax=True)
            policy = C51Policy(model=model, action_space=space, **atoms)
            return (RainbowDQN if config["noisy"] else C51)(policy=policy, **settings)
        case "quantile":
            N = config["quantiles"]
            policy = QRDQNPolicy(model=net(N), action_space=space)
            return QRDQN(policy=policy, num_quantiles=N, **settings)
        case "implicit":
            model = ImplicitQuantileNetwork(
                preprocess_net=Net(state_shape=shape, hidden_sizes=config["hidden"]),
                action_shape=actions,
                hidden_sizes=config["head_hidden"],
                num_cosines=_COSINES,
            )
            policy = IQNPolicy(
                model=model,
                action_space=space,
                sample_size=config["tau_samples_acting"],
                online_sample_size=config["tau_samples"],
                target_sample_size=config["tau_samples"],
            )
            return IQN(policy=policy, **settings)
    raise ValueError(f"no head {config['head']!r}")


def buffer_of(config: dict[str, Any]) -> Any:
    from tianshou.data import PrioritizedVectorReplayBuffer, VectorReplayBuffer

    rows = config["replay_capacity"]
    if not config["prioritized"]:
        return VectorReplayBuffer(rows, 1)
    alpha, beta = config["priority_alpha"], config["priority_beta"]
    return PrioritizedVectorReplayBuffer(rows, 1, alpha=alpha, beta=beta)


def fill(buffer: Any, rows: int, shape: tuple[int, ...], actions: int) -> None:
    """Stores random rows, one by one as of one env, with the ends of episodes."""
    from tianshou.data import Batch

    rng = np.random.default_rng(0)
    observations = rng.random((rows + 1, 1, *shape), np.float32)
    for i in range(rows):
        row = Batch(
            obs=observations[i],
            act=rng.integers(actions, size=1),
            rew=rng.random(1),
            terminated=np.array([i % _EPISODE == _EPISODE - 1]),
            truncated=np.array([False]),
            obs_next=observations[i + 1],
        )
        buffer.add(row)


def make(setup: dict[str, Any]) -> Work:
    import torch

    torch.set_num_threads(setup["threads"])
    return {"train": training, "learn": learning}[setup["kind"]](setup)


if __name__ == "__main__":
    serve(make)
