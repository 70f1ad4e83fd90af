"""Stable-Baselines3's DQN, or that of SBX, which is used the same way, until a mark is reached.

What is asked for has the settings of rl-baselines3-zoo, which SBX's own guide is to be used with:
https://github.com/araffin/sbx#using-sbx-with-the-rl-zoo
"""

from __future__ import annotations

import os
from typing import Any

from until_mark import Watch, from_command_line

os.environ["JAX_PLATFORMS"] = "cpu"
_NET_ARCH = (256, 256)
_PACKAGES = ("stable_baselines3", "torch", "gymnasium", "numpy")


def main(watch: Watch) -> None:
    asked = watch.asked
    settings = dict(asked["settings"])
    library, source = settings.pop("library"), settings.pop("source")
    # Epsilon at an env step is that of a run of the length that the settings are made for.
    own_length = settings.pop("env_steps")
    stretched = settings["exploration_fraction"] * own_length / asked["env_steps"]

    import gymnasium
    import torch

    if library == "sbx":
        from sbx import DQN
    else:
        from stable_baselines3 import DQN

    model = DQN(
        "MlpPolicy",
        gymnasium.make(asked["env_id"]),
        policy_kwargs={"net_arch": [*_NET_ARCH]},
        seed=asked["seed"],
        device="cpu",
        **settings | {"exploration_fraction": stretched},
    )

    def after_env_step(local: dict[str, Any], _: dict[str, Any]) -> bool:
        if model.num_timesteps >= watch.due:
            watch.evaluate(
                lambda observations: model.predict(observations, deterministic=True)[0],
                model.num_timesteps,
                model._n_updates,
            )
        return not watch.over

    model.learn(asked["env_steps"], callback=after_env_step)
    settings |= {"net_arch": [*_NET_ARCH], "torch_threads": torch.get_num_threads()}
    packages = ("sbx-rl", "jax", *_PACKAGES) if library == "sbx" else _PACKAGES
    watch.write({"env_steps": own_length} | settings, source, packages)


if __name__ == "__main__":
    main(from_command_line())
