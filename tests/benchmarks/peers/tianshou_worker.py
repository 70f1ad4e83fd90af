"""Tianshou's DQN as a worker, on one CartPole-v1: an epoch of its own trainer each time."""

from __future__ import annotations

from typing import Any

from gym_make import use_checker
from protocol import Work, serve

PACKAGES = ("tianshou", "torch", "gymnasium", "numpy")


def make(setup: dict[str, Any]) -> Work:
    import gymnasium
    import torch
    from tianshou.algorithm import DQN
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OffPolicyTrainer, OffPolicyTrainerParams
    from tianshou.utils.net.common import Net

    use_checker(setup["checker"])
    torch.set_num_threads(setup["threads"])
    envs = DummyVectorEnv([lambda: gymnasium.make("CartPole-v1")])
    space = envs.action_space[0]
    algorithm = DQN(
        policy=DiscreteQLearningPolicy(
            model=Net(state_shape=(4,), action_shape=2, hidden_sizes=[64, 64]),
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
        update_step_num_gradient_steps_per_sample=1 / setup["learn_period"],
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


if __name__ == "__main__":
    serve(make)
