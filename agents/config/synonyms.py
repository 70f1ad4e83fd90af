"""Names that other libraries have for the keys of a config.

`python -m targetnet.agents.config.synonyms` prints docs/guides/from_other_libraries.md.

Imports: rl_core.errors. Neither the keys themselves nor pydantic.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple

from targetnet.rl_core.errors import did_you_mean

_MOST_NAMED = 3  # libraries in a message


class Synonym(NamedTuple):
    """A name of another library: its default there, our key or keys, and how to convert a value."""

    name: str
    default: str  # empty: there is none
    keys: str  # separated by blanks; empty: there is none here
    note: str = ""


_ALL_ENVS = "in env steps of all envs together: times num_envs"
_ATOMS = 'with head = "categorical"'
_END = 'the end of a schedule: { schedule = "linear", start = 1.0, end = 0.05, fraction = 0.1 }'
_START = _END.replace("the end", "the start")
_SHARE = _END.replace("the end", "the fraction")
_STEPS = _SHARE.replace("fraction = 0.1", "steps = 10_000").replace("the fraction", "the steps")
_GREEDY = "evaluations are greedy; targetnet eval RUN --epsilon plays with random actions"

# What each library's names, units and defaults were read in.
VERSIONS = {
    "Stable-Baselines3": "2.9.2",
    "sb3-contrib": "2.9.2, QRDQN, which has the names of Stable-Baselines3 too",
    "rl-baselines3-zoo": "commit 22e3ff2",
    "CleanRL": "commit fe8d8a0; defaults of dqn.py, c51.py, rainbow_atari.py and pqn.py",
    "Dopamine": "4.1.2; JaxDQNAgent and those derived from it",
    "RLlib": "Ray 2.60.0; DQNConfig and its model and replay",
    "Tianshou": "2.0.1; older names are from 1.1.0",
    "TF-Agents": "0.19.0; DqnAgent, CategoricalDqnAgent and their train_eval",
}
SYNONYMS = {
    "Stable-Baselines3": (
        Synonym("env", "", "env_id"),
        Synonym("total_timesteps", "", "env_steps"),
        Synonym("n_envs", "1", "num_envs"),
        Synonym("policy", "", "network", '"MlpPolicy" is "mlp", "CnnPolicy" is "nature"'),
        Synonym("policy_kwargs", "", "hidden activation", "its net_arch and activation_fn"),
        Synonym("net_arch", "[64, 64]", "hidden"),
        Synonym("activation_fn", "nn.ReLU", "activation", 'nn.ReLU is "relu"'),
        Synonym("buffer_size", "1_000_000", "replay_capacity"),
        Synonym("learning_starts", "100", "learn_start"),
        Synonym("train_freq", "4", "learn_period", _ALL_ENVS),
        Synonym("gradient_steps", "1", "updates_per_learn", "-1: updates_per_learn = learn_period"),
        Synonym(
            "target_update_interval",
            "10_000",
            "sync_period",
            "counted in updates: target_update_interval * gradient_steps / (train_freq * n_envs); "
            "10,000 with train_freq = 4 is 2,500",
        ),
        Synonym("gamma", "0.99", "discount"),
        Synonym("n_steps", "1", "n_step"),
        Synonym("exploration_initial_eps", "1.0", "epsilon", _START),
        Synonym("exploration_final_eps", "0.05", "epsilon", _END),
        Synonym("exploration_fraction", "0.1", "epsilon", _SHARE),
        Synonym("log_interval", "4", "log_period", "in env steps, not episodes"),
        Synonym("eval_freq", "10_000", "eval_period", _ALL_ENVS),
        Synonym("n_eval_episodes", "5", "eval_episodes"),
        Synonym("save_freq", "", "checkpoint_steps", _ALL_ENVS),
        Synonym("optimize_memory_usage", "False", "", "each observation is stored once anyway"),
        Synonym("tensorboard_log", "None", "", "curves are written into the run's directory"),
    ),
    "sb3-contrib": (Synonym("n_quantiles", "200", "quantiles", 'with head = "quantile"'),),
    "rl-baselines3-zoo": (
        Synonym("n_timesteps", "", "env_steps"),
        Synonym("normalize", "False", "normalize_observations", "rewards: reward_scale"),
    ),
    "CleanRL": (
        Synonym("total_timesteps", "500_000", "env_steps"),
        Synonym("buffer_size", "10_000", "replay_capacity"),
        Synonym("learning_starts", "10_000", "learn_start"),
        Synonym("train_frequency", "10", "learn_period"),
        Synonym(
            "target_network_frequency",
            "500",
            "sync_period",
            "counted in updates: 500 with train_frequency = 10 is 50",
        ),
        Synonym("gamma", "0.99", "discount"),
        Synonym("start_e", "1", "epsilon", _START),
        Synonym("end_e", "0.05", "epsilon", _END),
        Synonym("exploration_fraction", "0.5", "epsilon", _SHARE),
        Synonym("n_atoms", "101", "atoms", _ATOMS),
        Synonym("prioritized_replay_alpha", "0.5", "priority_alpha", "with prioritized = true"),
        Synonym(
            "prioritized_replay_beta",
            "0.4",
            "priority_beta",
            "as it is; where it rises to 1, a schedule",
        ),
        Synonym("prioritized_replay_eps", "1e-6", "", "it is 1e-6"),
        Synonym("num_steps", "128", "rollout"),
        Synonym("num_minibatches", "4", "batch_size", "num_envs * rollout / num_minibatches"),
        Synonym("update_epochs", "4", "epochs"),
        Synonym(
            "anneal_lr",
            "True",
            "learning_rate",
            'a schedule: { schedule = "linear", start = 2.5e-4, end = 0.0, fraction = 1.0 }',
        ),
        Synonym("track", "False", "log_to", 'true is ["wandb"]'),
        Synonym("capture_video", "False", "", "targetnet play RUN --video FILE writes one"),
    ),
    "Dopamine": (
        Synonym("num_iterations", "200", "env_steps", "num_iterations * training_steps"),
        Synonym("training_steps", "250_000", "env_steps", "num_iterations * training_steps"),
        Synonym("max_capacity", "", "replay_capacity"),
        Synonym("min_replay_history", "20_000", "learn_start"),
        Synonym("update_period", "4", "learn_period"),
        Synonym("num_updates_per_train_step", "1", "updates_per_learn"),
        Synonym(
            "target_update_period",
            "8_000",
            "sync_period",
            "counted in updates: 8000 with update_period = 4 is 2000",
        ),
        Synonym("gamma", "0.99", "discount"),
        Synonym("update_horizon", "1", "n_step"),
        Synonym("epsilon_train", "0.01", "epsilon", _END),
        Synonym("epsilon_decay_period", "250_000", "epsilon", _STEPS),
        Synonym("epsilon_eval", "0.001", "", _GREEDY),
        Synonym("stack_size", "4", "frame_stack"),
        Synonym("clip_rewards", "True", "reward_clip", "true is 1.0"),
        Synonym("loss_type", '"mse"', "loss", '"mse" is "squared"'),
        Synonym("eps", "1.5e-4", "adam_epsilon"),
        Synonym("double_dqn", "True", "double"),
        Synonym("distributional", "True", "head", 'true is "categorical"'),
        Synonym("num_atoms", "51", "atoms", _ATOMS),
        Synonym("vmin", "None", "v_min", "-vmax by default there"),
        Synonym("vmax", "10.0", "v_max"),
        Synonym("replay_scheme", '"prioritized"', "prioritized", '"prioritized" is true'),
        Synonym("kappa", "1.0", "huber_delta"),
        Synonym("num_tau_samples", "32", "tau_samples", 'with head = "implicit"'),
        Synonym("num_tau_prime_samples", "32", "tau_samples", "one number for both networks"),
        Synonym("num_quantile_samples", "32", "tau_samples_acting"),
        Synonym("evaluation_steps", "125_000", "eval_episodes", "in episodes, not env steps"),
        Synonym(
            "max_steps_per_episode",
            "27_000",
            "env_kwargs",
            "max_episode_steps of it; evaluations are cut by eval_max_steps",
        ),
    ),
    "RLlib": (
        Synonym("env", "None", "env_id"),
        Synonym("num_envs_per_env_runner", "1", "num_envs"),
        Synonym("num_env_runners", "0", "actors", 'with loop = "remote"'),
        Synonym("fcnet_hiddens", "[256, 256]", "hidden"),
        Synonym("fcnet_activation", '"tanh"', "activation", '"swish" is "silu"'),
        Synonym("hiddens", "[256]", "head_hidden"),
        Synonym("use_lstm", "False", "recurrent", 'true is "lstm"'),
        Synonym("lstm_cell_size", "256", "recurrent_units"),
        Synonym("max_seq_len", "20", "sequence_length", "max_seq_len less burn_in_len"),
        Synonym("burn_in_len", "0", "burn_in"),
        Synonym("lr", "5e-4", "learning_rate"),
        Synonym("train_batch_size", "32", "batch_size"),
        Synonym("train_batch_size_per_learner", "None", "batch_size"),
        Synonym("num_steps_sampled_before_learning_starts", "1_000", "learn_start"),
        Synonym("rollout_fragment_length", '"auto"', "learn_period", _ALL_ENVS),
        Synonym(
            "training_intensity",
            "None",
            "updates_per_learn",
            "training_intensity * learn_period / batch_size",
        ),
        Synonym(
            "target_network_update_freq",
            "500",
            "sync_period",
            "counted in updates: 500 with learn_period = 4 is 125",
        ),
        Synonym("gamma", "0.99", "discount"),
        Synonym("grad_clip", "40.0", "max_grad_norm"),
        Synonym("td_error_loss_fn", '"huber"', "loss", '"mse" is "squared"'),
        Synonym("double_q", "True", "double"),
        Synonym("num_atoms", "1", "atoms", _ATOMS),
        Synonym("sigma0", "0.5", "", "it is 0.5"),
        Synonym("initial_epsilon", "1.0", "epsilon", _START),
        Synonym("final_epsilon", "0.02", "epsilon", _END),
        Synonym("epsilon_timesteps", "10_000", "epsilon", _STEPS),
        Synonym(
            "replay_buffer_config",
            "",
            "replay_capacity prioritized priority_alpha priority_beta",
            "capacity, type, alpha and beta of it",
        ),
        Synonym("capacity", "50_000", "replay_capacity"),
        Synonym("alpha", "0.6", "priority_alpha", "with prioritized = true"),
        Synonym("beta", "0.4", "priority_beta", "with prioritized = true"),
        Synonym("evaluation_interval", "None", "eval_period", "in env steps, not iterations"),
        Synonym("evaluation_duration", "10", "eval_episodes"),
    ),
    "Tianshou": (
        Synonym("max_epochs", "100", "env_steps", "max_epochs * epoch_num_steps"),
        Synonym("max_epoch", "", "env_steps", "max_epoch * step_per_epoch"),
        Synonym("epoch_num_steps", "30_000", "env_steps", "max_epochs * epoch_num_steps"),
        Synonym("step_per_epoch", "", "env_steps", "max_epoch * step_per_epoch"),
        Synonym("num_training_envs", "-1", "num_envs"),
        Synonym("hidden_sizes", "()", "hidden"),
        Synonym("lr", "1e-3", "learning_rate"),
        Synonym("buffer_size", "4_096", "replay_capacity"),
        Synonym("start_timesteps", "0", "learn_start"),
        Synonym("collection_step_num_env_steps", "2_048", "learn_period"),
        Synonym("step_per_collect", "", "learn_period"),
        Synonym(
            "update_step_num_gradient_steps_per_sample",
            "1.0",
            "updates_per_learn",
            "times learn_period",
        ),
        Synonym("update_per_step", "1.0", "updates_per_learn", "times learn_period"),
        Synonym(
            "target_update_freq",
            "0",
            "sync_period",
            "in updates there too; 0, which is without a target network, is online_weight = 1",
        ),
        Synonym("gamma", "0.99", "discount"),
        Synonym("discount_factor", "0.99", "discount"),
        Synonym("n_step_return_horizon", "1", "n_step"),
        Synonym("estimation_step", "1", "n_step"),
        Synonym("eps_training", "0.0", "epsilon"),
        Synonym("eps_inference", "0.0", "", _GREEDY),
        Synonym("is_double", "True", "double"),
        Synonym("huber_loss_delta", "None", "huber_delta", 'None is loss = "squared"'),
        Synonym("num_atoms", "51", "atoms", _ATOMS),
        Synonym("num_quantiles", "200", "quantiles", 'with head = "quantile"'),
        Synonym("online_sample_size", "8", "tau_samples", 'with head = "implicit"'),
        Synonym("target_sample_size", "8", "tau_samples", "one number for both networks"),
        Synonym("sample_size", "32", "tau_samples_acting"),
        Synonym("alpha", "", "priority_alpha", "with prioritized = true"),
        Synonym("beta", "", "priority_beta", "with prioritized = true"),
        Synonym("stack_num", "1", "frame_stack"),
        Synonym("replay_buffer_stack_num", "1", "frame_stack"),
        Synonym("test_step_num_episodes", "1", "eval_episodes"),
        Synonym("episode_per_test", "", "eval_episodes"),
    ),
    "TF-Agents": (
        Synonym("env_name", '"CartPole-v0"', "env_id"),
        Synonym(
            "num_iterations",
            "100_000",
            "env_steps",
            "num_iterations * collect_steps_per_iteration",
        ),
        Synonym("fc_layer_params", "(75, 40)", "hidden"),
        Synonym("replay_buffer_capacity", "100_000", "replay_capacity", "of all envs together"),
        Synonym("max_length", "1_000", "replay_capacity", "of all envs together"),
        Synonym("initial_collect_steps", "1_000", "learn_start"),
        Synonym("collect_steps_per_iteration", "1", "learn_period"),
        Synonym("train_steps_per_iteration", "1", "updates_per_learn"),
        Synonym("target_update_period", "1", "sync_period", "in updates there too"),
        Synonym("target_update_tau", "1.0", "tau"),
        Synonym("gamma", "1.0", "discount"),
        Synonym("n_step_update", "1", "n_step"),
        Synonym("epsilon_greedy", "0.1", "epsilon"),
        Synonym("boltzmann_temperature", "None", "temperature", "with boltzmann = true"),
        Synonym("reward_scale_factor", "1.0", "reward_scale"),
        Synonym("td_errors_loss_fn", "None", "loss", 'by default "huber", as there'),
        Synonym(
            "gradient_clipping",
            "None",
            "max_grad_norm",
            "of all gradients together, there of each by itself; None is 0",
        ),
        Synonym("num_atoms", "51", "atoms", _ATOMS),
        Synonym("min_q_value", "-10.0", "v_min"),
        Synonym("max_q_value", "10.0", "v_max"),
        Synonym("eval_interval", "1_000", "eval_period", "in env steps, not updates"),
        Synonym("num_eval_episodes", "10", "eval_episodes"),
    ),
}


def near_key(name: object, names: Iterable[str]) -> str:
    """Returns "; NAME of LIBRARY is KEY here" for a key of another library.

    Any other key gets "; did you mean 'KEY'?" with the nearest of `names`, or an empty string.
    """
    told = _told(name) if isinstance(name, str) else ""
    return f"; {told}" if told else did_you_mean(name, names)


def _told(name: str) -> str:
    # As on a command line, --buffer-size, and in a gin file, JaxDQNAgent.gamma.
    name = name.rpartition(".")[2].lstrip("-").replace("-", "_").lower()
    libraries: dict[str, list[str]] = {}
    for library, synonyms in SYNONYMS.items():
        for synonym in synonyms:
            if synonym.name == name:
                libraries.setdefault(_here(synonym), []).append(library)
    told = "; that of ".join(f"{_listed(of)} {here}" for here, of in libraries.items())
    return told and f"{name} of {told}"


def _here(synonym: Synonym) -> str:
    if not synonym.keys:
        return f"has no key here: {synonym.note}"
    note = f", {synonym.note}" if synonym.note else ""
    return f"is {_listed(synonym.keys.split())} here{note}"


def _listed(names: list[str]) -> str:
    if len(names) > _MOST_NAMED + 1:
        return "other libraries"
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def as_markdown() -> str:
    """Returns the docs page of all names."""
    return _PAGE + "\n".join(_section(library) for library in SYNONYMS)


def _section(library: str) -> str:
    rows = "\n".join(map(_row, SYNONYMS[library]))
    return f"## {library}\n\nFrom the source of {VERSIONS[library]}.\n\n{_HEAD}{rows}\n"


def _row(of: Synonym) -> str:
    keys = ", ".join(f"`{key}`" for key in of.keys.split()) or "none"
    default = f"`{of.default}`" if of.default else ""
    return f"| `{of.name}` | {default} | {keys} | {of.note} |"


_HEAD = """\
| there | its default | here | how to convert |
|---|---|---|---|
"""
_PAGE = """\
# Coming from another library

<!-- Generated from agents/config/synonyms.py by make docs. -->

| there | here |
|---|---|
| `model.learn(...)`, a training script | `targetnet train CONFIG`, or `train(config)` |
| `model.predict(...)` | `load_policy(run)(observation)` |
| `model.save`, `load`, checkpoints | a run saves itself; `targetnet resume RUN` goes on |
| callbacks, hooks | `train(config, on_tick=...)`, a [controller](controllers.md) |
| `EvalCallback`, evaluations | `eval_period`, `eval_episodes`; curve `evaluation/return` |
| `make_vec_env`, collectors | `num_envs`, `vectorization`, `loop` |
| `tensorboard_log`, a logger | always on; [more loggers](logging.md) |
| `policy_kwargs`, a network class | `network`, `hidden`, or [your own network](own_network.md) |
| a loop of your own around an agent | [`DqnAgent` and `training_loop`](from_python.md) |
| a study of hyperparameters | [`targetnet sweep`](sweeps.md) |

The defaults of Stable-Baselines3's DQN are this config:

```toml
env_id = "CartPole-v1"
env_steps = 100_000             # total_timesteps
hidden = [64, 64]               # net_arch
replay_capacity = 1_000_000     # buffer_size
learn_start = 100               # learning_starts
learn_period = 4                # train_freq
updates_per_learn = 1           # gradient_steps
batch_size = 32
sync_period = 2_500             # target_update_interval = 10_000, in updates
learning_rate = 1e-4
double = false
loss = "huber"
epsilon = { schedule = "linear", start = 1.0, end = 0.05, fraction = 0.1 }
```

The tables below translate names. If a config has one of them, it is refused, and the message says
what the table says. Names that are the same here are not listed: `batch_size`, `tau`,
`learning_rate`, `n_step`, `seed` and others. Their defaults may differ, so copy the values too. One
page has all [keys of a config](../reference/config.md).

The period is where a translation goes wrong: `sync_period` is counted in updates, and most others
count env steps. With one update in every 4 env steps, 10,000 env steps are `sync_period = 2_500`.
Where others make k full copies between two learning phases, only the last one counts: then the
period is `updates_per_learn`. With `tau` below 1 the k copies add up: `tau = 1 - (1 - tau) ** k`.
[`zoo-cartpole.toml`](../variants/zoo-cartpole.toml) and its
neighbours have the settings of rl-baselines3-zoo, translated.

Some differences have no name: Stable-Baselines3 acts at random until `learning_starts`, and here
epsilon decides from the first step on. CleanRL's loss is the squared TD error, twice that of
`loss = "squared"`, and CleanRL's and Dopamine's DQN clip no gradients (`max_grad_norm = 0`).

"""


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
