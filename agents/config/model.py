"""The configuration of one DQN run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    ValidationInfo,
    field_validator,
    model_validator,
)

from targetnet.agents.config.combinations import (
    PREPARED,
    SYNC_RULES,
    check_combinations,
    without_effect,
)
from targetnet.agents.config.own_live import OwnLive, check_names
from targetnet.agents.config.settings import LiveFloat, LiveInt, Settings, key, live, require_toml
from targetnet.agents.config.synonyms import near_key
from targetnet.agents.config.weight_actions import WeightAction
from targetnet.rl_core.errors import did_you_mean, quoted
from targetnet.rl_core.schedules import Linear

Size = Annotated[int, Field(ge=1)]
# Default `hidden` of each network in targetnet.rl_core.networks, from its paper.
_HIDDEN = {"mlp": (256, 256), "minatar": (128,), "nature": (512,), "impala": (256,)}
NETWORKS = tuple(_HIDDEN)
# Those of agents/controllers; a user's own is named "module:function".
CONTROLLERS = ("copy_when_fit", "copy_when_far", "period_bandit")
WRAPPERS = ("atari", "elements", "seed_globals")  # of envs/env_recipe.py
LOG_TO = ("mlflow", "wandb", "trackio")  # packages that take curves, see docs/guides/logging.md


# Keys that are about copies of whole networks, and what each of them is where it is off.
_OF_FULL_COPIES: dict[str, Any] = {
    "sync_period": None, "averaged_targets": 1, "chain": 1, "on_sync": (),
    **dict.fromkeys(SYNC_RULES, 0.0),
}  # fmt: skip
_FULL_COPIES = {"sync_period": 100, "tau": 1.0}


def _dependent_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the defaults that depend on what a config says; they are not checked here."""
    found: dict[str, Any] = {}
    network = values.get("network")
    if isinstance(network, str) and network in _HIDDEN:
        found["hidden"] = _HIDDEN[network]
    if values.get("head", "scalar") != "scalar" or "huber_delta" in values:
        found["loss"] = "huber"
    if "tau" not in values and not values.get("rollout") and _names_full_copies(values):
        found |= _FULL_COPIES
    return {name: value for name, value in found.items() if name not in values}


def _names_full_copies(values: Mapping[str, Any]) -> bool:
    prepared = values.get("prepared")
    return (
        any(
            values[name] not in (off, []) for name, off in _OF_FULL_COPIES.items() if name in values
        )
        or values.get("controller") in CONTROLLERS
        or (isinstance(prepared, list | tuple) and any(name in SYNC_RULES for name in prepared))
    )


def _known_or_own(what: str, name: str, known: Sequence[str]) -> str:
    """Returns `name` if it is known or has the form "module:function".

    Raises:
      ValueError: it is neither; names the nearest one.
    """
    if name not in known and not all(name.partition(":")):
        raise ValueError(
            f"there is no {what} {quoted(name)} ({', '.join(known)}, or your own as "
            f"'module:function'){did_you_mean(name, known)}"
        )
    return name


class FreezeArm(Settings):
    """One arm of an alternating freeze: its exempt blocks and its length."""

    exempt: tuple[str, ...] = Field(strict=False)  # names of the blocks that are not trained
    updates: int = Field(ge=1)  # length of the arm


class EnvKeys(Settings):
    """The env, the number of its copies, the seed, and the length of the run."""

    env_id: str = key("CartPole-v1", 'id of a registered Gymnasium env, or "module:id"')
    env_kwargs: dict[str, Any] = key(
        {}, "arguments of the env; `max_episode_steps` changes its time limit"
    )
    env_wrapper: str | tuple[str, ...] = key(
        "",
        'put around each env: atari, elements, seed_globals, or your own as "module:function"; or '
        "a list of these, the innermost first, see docs/guides/own_env.md",
    )
    env_wrapper_kwargs: dict[str, Any] | tuple[dict[str, Any], ...] = key(
        {}, "arguments of the wrapper; for a list of wrappers, one table for each"
    )
    check_env: bool = key(
        True,
        "repeats some steps of an env from the same seed before the run, and says if they differ",
    )
    num_envs: int = key(
        1, "envs that step together; with loop = 'remote', of each actor", "envs", ge=1
    )
    observation_keys: tuple[str, ...] = key(
        (),
        "which entries of a dict or tuple observation to use; none named: all",
        strict=False,
    )
    action_masks: str = key(
        "auto",
        'where the env says which actions are legal: `auto` takes `info["action_mask"]`, a part '
        "`action_mask` of its observations, or its method `action_masks()`, whichever is there "
        "first; `info` the first of these alone, `off` none; or the name of another part",
    )
    frame_stack: int = key(
        1,
        "latest frames that make up one observation; frames before an episode's start are zeros; "
        "the replay stores each frame once",
        "frames",
        ge=1,
    )
    vectorization: Literal["sync", "async", "vector_entry_point", "envpool"] = key(
        "sync", "kind of vector env, see docs/explanation/loops.md"
    )
    seed: int = key(0, "seed of the envs, the weights and every random draw", ge=0, lt=2**63)
    env_steps: int = key(50_000, "length of the run, over all copies of the env", "env steps", ge=1)

    @field_validator("env_kwargs")
    @classmethod
    def _check_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        return require_toml(arguments)

    @field_validator("env_wrapper_kwargs", mode="before")
    @classmethod
    def _check_wrapper_arguments(cls, given: Any) -> Any:
        each = given if isinstance(given, list | tuple) else [given]
        if not all(isinstance(one, dict) for one in each):
            raise ValueError(f"must be a table, or a list of tables, got {quoted(given)}")
        checked = tuple(map(require_toml, each))
        return checked if isinstance(given, list | tuple) else checked[0]

    @field_validator("observation_keys")
    @classmethod
    def _check_keys(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{quoted(name)} is named twice")
        return names

    @field_validator("env_wrapper", mode="before")
    @classmethod
    def _check_wrapper(cls, given: Any) -> Any:
        names = tuple(given) if isinstance(given, list | tuple) else (given,)
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"must be a wrapper's name, or a list of names, got {quoted(given)}")
        for name in names:
            if name or names != ("",):
                _known_or_own("env_wrapper", name, WRAPPERS)
        return names if isinstance(given, list | tuple) else given


class RewardKeys(Settings):
    """Changes to the rewards of a batch: scaling, then clipping.

    The replay stores the env's own rewards, and returns are reported in them.
    """

    reward_scale: LiveFloat = live(
        1.0, gt=0, unit="1", meaning="factor of every reward that is learned from"
    )
    reward_clip: LiveFloat = live(
        0.0,
        ge=0,
        unit="reward",
        meaning="largest size of a scaled reward; 0 turns clipping off",
    )


class NetworkKeys(Settings):
    """The network: a torso and a head.

    The blocks that can be frozen are `torso` and `head`; a dueling head has the blocks `value` and
    `advantage` instead of `head`.
    """

    network: str = key("mlp", 'mlp, minatar, nature, impala, or your own as "module:function"')
    part_networks: dict[str, Literal["mlp", "minatar", "nature", "impala"]] = key(
        {},
        "for observations of several parts: the part's name and its network, where this is not "
        "`network`; mlp flattens a picture",
    )
    hidden: tuple[Size, ...] = key(
        (256, 256),
        "units of each dense layer of the torso; by default 128 with minatar, 512 with nature, "
        "256 with impala",
        "units",
        strict=False,
    )
    layer_norm: bool = key(False, "layer normalization in the torso")
    byte_scale: Literal["bounds", "255"] = key(
        "bounds",
        "scales uint8 observations to [0, 1]: by the bounds of their Box, or by dividing by 255",
    )
    normalize_observations: bool = key(
        False,
        "normalizes observations with the running mean and standard deviation of all that the "
        "envs have shown",
    )
    dueling: bool = key(
        False, "dueling head: a stream for the state's value and one for the advantages"
    )
    head_hidden: tuple[Size, ...] = key(
        (),
        "units of each hidden layer of the head; a dueling head has such layers in both streams",
        "units",
        strict=False,
    )
    noisy: bool = key(False, "noisy layers in the head")
    head: Literal["scalar", "categorical", "quantile", "implicit"] = key(
        "scalar",
        "scalar: the expected return; categorical: C51, or HL-Gauss by `loss`; quantile: QR-DQN; "
        "implicit: IQN",
    )
    atoms: int = key(51, "atoms of a categorical head", "atoms", ge=2)
    v_min: float = key(
        -10.0, "return at the first atom; with HL-Gauss the lower edge of its bin", "reward"
    )
    v_max: float = key(
        10.0, "return at the last atom; with HL-Gauss the upper edge of its bin", "reward"
    )
    quantiles: int = key(200, "quantiles of a quantile head", "quantiles", ge=1)
    tau_samples: int = key(
        64, "fractions that an implicit head draws in an update", "fractions", ge=1
    )
    tau_samples_acting: int = key(32, "fractions on which an implicit head acts", "fractions", ge=1)

    @field_validator("network")
    @classmethod
    def _check_network(cls, name: str) -> str:
        return _known_or_own("network", name, NETWORKS)


class RecurrentKeys(Settings):
    """A memory: a recurrent layer between torso and head, learned from sequences (R2D2)."""

    recurrent: Literal["none", "gru", "lstm"] = key(
        "none", "recurrent layer between torso and head, so that the agent remembers"
    )
    recurrent_units: int = key(128, "units of the recurrent layer", "units", ge=1)
    sequence_length: int = key(
        80, "time steps of a sequence that are learned from", "time steps", ge=1
    )
    burn_in: int = key(
        40,
        "time steps before a sequence that only update the recurrent state",
        "time steps",
        ge=0,
    )
    priority_eta: LiveFloat = live(
        0.9,
        ge=0,
        le=1,
        unit="1",
        meaning="sequence priority = eta * largest + (1 - eta) * mean absolute TD error",
    )


class TargetKeys(Settings):
    """The target network, and the regression target that is computed with it."""

    double: bool = key(
        False, "Double DQN: the online network chooses the action that the target network values"
    )
    averaged_targets: int = key(
        1, "target copies whose values are averaged; 1 turns averaging off", "copies", ge=1
    )
    chain: int = key(
        1,
        "online networks in a chain: each learns from a copy of the one before, the first from "
        "the target; each sync moves all one place on",
        "networks",
        ge=1,
        le=100,
    )
    chain_torso: Literal["own", "shared"] = key(
        "own",
        "own: each network of a chain has a torso, and the target's is a copy; shared: all heads, "
        "the target's too, stand on the online torso as it is",
    )
    sync_period: LiveInt = live(
        10,
        ge=1,
        unit="updates",
        meaning="updates between two syncs of the target network",
        effect="next update; if the target is already this old, that update syncs it",
    )
    tau: LiveFloat = live(
        0.1,
        gt=0,
        le=1,
        unit="1",
        meaning="weight of the online network in a sync; 1 is a full copy, and the default of a "
        "config that sets `sync_period`",
        effect="next sync",
    )
    refresh_period: LiveInt = live(
        1,
        ge=1,
        unit="updates",
        meaning="updates from a sync or refresh to the next refresh, in which each network of a "
        "chain is copied for the next one to learn from",
        effect="next update",
    )
    sync_growth: LiveFloat = live(
        0.0,
        ge=0,
        unit="1",
        meaning="share by which the period grows at each sync that an update makes, from "
        "sync_period on; a new sync_period begins again",
        effect="next sync",
    )
    sync_fit: LiveFloat = live(
        0.0,
        ge=0,
        le=1,
        unit="1",
        meaning="syncs early once the mean squared TD error is below this share of what it was "
        "after the last sync; 0 is never",
        effect="next update",
    )
    sync_fit_updates: int = key(
        100, "updates over which sync_fit takes its means", "updates", ge=1, le=1_000_000
    )
    sync_distance: LiveFloat = live(
        0.0,
        ge=0,
        unit="1",
        meaning="syncs early once the norm of online - target is this share of the target's; 0 is "
        "never",
        effect="next update",
    )
    min_target_age: LiveInt = live(
        1,
        ge=1,
        unit="updates",
        meaning="smallest age at which sync_fit or sync_distance syncs the target",
        effect="next update",
    )
    max_target_age: LiveInt = live(
        0,
        ge=0,
        unit="updates",
        meaning="age at which the target is synced at the latest, however long its period has "
        "grown; 0 is no limit",
        effect="next update",
    )
    on_sync: tuple[Literal["reset_moments", "reset_time"], ...] = key(
        (),
        "done to Adam at each sync: reset_moments makes it new, reset_time only its step counter",
        strict=False,
    )
    value_rescaling: bool = key(
        False,
        "the network learns sign(x) (sqrt(abs(x) + 1) - 1) + 0.001 x of each return x, so that "
        "large ones are small",
    )
    discount: LiveFloat = live(
        0.99, ge=0, le=1, unit="1", meaning="factor of the next state's value in the target"
    )
    online_weight: LiveFloat = live(
        0.0,
        ge=0,
        le=1,
        unit="1",
        meaning="share of the online network in the values that bootstrap; 1 is without a target",
    )
    min_weight: LiveFloat = live(
        0.0,
        ge=0,
        le=1,
        unit="1",
        meaning="share of min(target, online), taken for each action, in the values that "
        "bootstrap; 1 is MINTO",
    )
    functional_weight: LiveFloat = live(
        0.0,
        ge=0,
        unit="1",
        meaning="weight of the squared distance of a batch's values from the target network's",
    )
    proximal_weight: LiveFloat = live(
        0.0,
        ge=0,
        unit="1",
        meaning="pull of the weights towards the target's in each update, times the learning rate",
    )
    prepared: tuple[str, ...] = key(
        (),
        "weights and sync rules that are 0 at first and may be set during the run; each costs "
        "what it needs from the start",
        strict=False,
    )
    munchausen: bool = key(False, "Munchausen DQN: the scaled log policy is added to the reward")
    munchausen_alpha: LiveFloat = live(
        0.9, ge=0, le=1, unit="1", meaning="factor of the log policy that is added to the reward"
    )
    munchausen_temperature: LiveFloat = live(
        0.03, gt=0, unit="reward", meaning="temperature of the target's softmax policy"
    )
    munchausen_clip: LiveFloat = live(
        -1.0, lt=0, unit="reward", meaning="lower bound of the log policy times its temperature"
    )

    @field_validator("prepared")
    @classmethod
    def _check_prepared(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in PREPARED:
                raise ValueError(
                    f"{quoted(name)} is no value that can be prepared ({', '.join(PREPARED)})"
                    f"{did_you_mean(name, PREPARED)}"
                )
        return tuple(dict.fromkeys(names))

    def is_built_with(self, name: str) -> bool:
        """Returns True if updates are built with this live value, one of PREPARED."""
        return name in self.prepared or getattr(self, name) != 0


class ReplayKeys(Settings):
    """The replay memory and how batches are sampled from it."""

    replay_capacity: int = key(
        100_000, "rows of the replay, one per env and time step", "rows", ge=3
    )
    batch_size: int = key(
        64, "transitions per update; with `recurrent`, sequences", "transitions", ge=1
    )
    n_step: LiveInt = live(
        1,
        ge=1,
        unit="env steps",
        meaning="rewards added up before the next state's value",
    )
    prioritized: bool = key(False, "prioritized replay")
    priority_alpha: LiveFloat = live(
        0.6,
        ge=0,
        le=1,
        unit="1",
        meaning="exponent of the priorities in sampling; 0 is uniform",
        effect="next update; it recomputes all priorities",
    )
    priority_beta: LiveFloat = live(
        0.4,
        ge=0,
        le=1,
        unit="1",
        meaning="share of the sampling bias that importance weights remove",
    )


class RolloutKeys(Settings):
    """Rollouts instead of a replay and a target network: PQN.

    After each rollout of all envs the network gives its steps their returns, and updates are made
    of batches of that rollout alone.
    """

    rollout: int = key(
        0, "length of a rollout; 0: there is a replay and a target network", "time steps", ge=0
    )
    epochs: int = key(1, "passes over a rollout, in batches of `batch_size`", "passes", ge=1)
    q_lambda: LiveFloat = live(
        0.65,
        ge=0,
        le=1,
        unit="1",
        meaning="lambda of the Q(lambda) returns of a rollout; 0 is one step, 1 all steps",
        effect="next rollout's updates",
    )


class DataKeys(Settings):
    """Learning from a Minari dataset, before the first env step or alone: docs/guides/data.md."""

    offline: str = key(
        "", "path or id of a dataset that is learned from; empty: a run learns from its own envs"
    )
    begin_with: str = key(
        "",
        "path or id of a dataset of demonstrations, whose steps are the first rows of the replay; "
        "the run then steps its envs",
    )
    dataset_digest: str = key(
        "", "hash of the dataset's steps; a run keeps it, and no other dataset will do"
    )
    demonstration_steps: int = key(
        0,
        "time steps of the replay that the demonstrations of begin_with take; a run fills it in",
        "time steps",
        ge=0,
    )
    cql_weight: LiveFloat = live(
        0.0,
        ge=0,
        unit="1",
        meaning="weight of conservative Q-learning's penalty: how far the log of the sum of exp of "
        "all actions' values is above the value of the action taken",
    )
    margin_weight: LiveFloat = live(
        0.0,
        ge=0,
        unit="1",
        meaning="weight of the large-margin loss on demonstrations: how far any other action's "
        "value plus the margin is above the value of the action taken",
    )
    margin: LiveFloat = live(
        0.8,
        ge=0,
        unit="reward",
        meaning="distance that the large-margin loss wants between the value of a demonstrated "
        "action and all others",
    )
    demonstration_bonus: LiveFloat = live(
        0.0,
        ge=0,
        unit="reward",
        meaning="added to the absolute TD error of demonstrations in their priority",
    )


class LearningKeys(Settings):
    """The updates: their schedule, the optimizer, the loss, the frozen blocks."""

    learn_start: int = key(1_000, "env steps before the first update", "env steps", ge=0)
    learn_period: LiveInt = live(
        4,
        ge=1,
        unit="env steps",
        meaning="env steps from one learning phase to the next",
        effect="next env step; if the last phase was this long ago, one is due at once",
    )
    updates_per_learn: LiveInt = live(
        2,
        ge=1,
        le=1_000_000,
        unit="updates",
        meaning="updates in one learning phase",
        effect="next phase",
    )
    learning_rate: LiveFloat = live(
        Linear(start=1e-3, end=1e-4, fraction=1.0), ge=0, unit="1", meaning="Adam's step size"
    )
    # A smaller one could push weights out of float32.
    adam_epsilon: float = key(
        1e-8,
        "number that is added to the divisor of a step of Adam, before the correction of the "
        "second moment, as in TensorFlow (epsilon hat of the paper)",
        "1",
        ge=1e-30,
    )
    loss: Literal["huber", "squared", "hl_gauss"] = key(
        "squared",
        "loss of a scalar head, `huber` by default if `huber_delta` is set; hl_gauss: a "
        "categorical head learns means by cross-entropy with a histogram around the target",
    )
    huber_delta: LiveFloat = live(
        1.0, gt=0, unit="reward", meaning="absolute TD error above which the Huber loss is linear"
    )
    hl_gauss_sigma: LiveFloat = live(
        0.75,
        ge=0.01,
        le=100,
        unit="bins",
        meaning="standard deviation of HL-Gauss's histogram; a bin is (v_max - v_min) / atoms wide",
    )
    max_grad_norm: LiveFloat = live(
        10.0,
        ge=0,
        unit="1",
        meaning="largest global norm of the gradients; larger ones are scaled down; 0 turns "
        "clipping off",
    )
    ema_decay: LiveFloat = live(
        0.0,
        ge=0,
        lt=1,
        unit="1",
        meaning="decay per update of the averaged weights; 0 in the config turns averaging off",
        effect="next update",
    )
    freeze: tuple[FreezeArm, ...] = key(
        (), "arms that take turns; without arms all blocks are trained", strict=False
    )

    actions: tuple[WeightAction, ...] = key(
        (),
        "actions on the weights that are made again and again, see docs/guides/renewing_weights.md",
        strict=False,
    )

    @field_validator("actions", mode="before")
    @classmethod
    def _check_action_keys(cls, actions: Any) -> Any:
        for action in actions if isinstance(actions, list | tuple) else ():
            WeightAction.require_keys(action)
        return actions

    @field_validator("freeze", mode="before")
    @classmethod
    def _parse_arms(cls, arms: Any) -> Any:
        if isinstance(arms, list | tuple):
            return tuple(
                a if isinstance(a, FreezeArm) else FreezeArm.model_validate(a) for a in arms
            )
        return arms


class ExplorationKeys(Settings):
    """Exploration: random actions, and actions drawn by their values."""

    epsilon: LiveFloat = live(
        Linear(start=1.0, end=0.05, fraction=0.2),
        ge=0,
        le=1,
        unit="probability",
        meaning="probability of a uniformly random action",
        effect="next action",
    )
    boltzmann: bool = key(
        False, "draws actions from softmax(q / temperature) instead of the greedy one"
    )
    temperature: LiveFloat = live(
        1.0,
        gt=0,
        unit="reward",
        meaning="temperature of Boltzmann exploration; higher is more random",
        effect="next action",
    )


class EvaluationKeys(Settings):
    """Times of curve points and evaluations, and the size of an evaluation."""

    log_period: int = key(
        1_000, "env steps from one point of a curve to the next", "env steps", ge=1
    )
    histograms: LiveInt = live(
        0,
        ge=0,
        unit="env steps",
        meaning="env steps between histograms of weights and gradients; 0 is off; each takes as "
        "long as about 10 updates",
        effect="next point of the curves (log_period)",
    )
    eval_period: int = key(
        10_000, "env steps from one greedy evaluation to the next", "env steps", ge=1
    )
    eval_episodes: int = key(10, "episodes of each evaluation during training", "episodes", ge=1)
    eval_max_steps: int = key(
        27_000, "env steps after which an evaluation cuts off an episode", "env steps", ge=1
    )
    final_eval_episodes: int = key(
        100, "episodes of the evaluation after training", "episodes", ge=1
    )


class ControllerKeys(Settings):
    """A function that watches the run and changes live values, see docs/guides/controllers.md."""

    controller: str = key(
        "", f'{", ".join(CONTROLLERS)}, or your own as "module:function"; empty for none'
    )
    controller_period: int = key(
        1_000, "env steps from one call of the controller to the next", "env steps", ge=1
    )
    controller_args: dict[str, Any] = key({}, "arguments of the controller, by name")

    @field_validator("controller_args")
    @classmethod
    def _check_arguments_of_controller(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        return require_toml(arguments)

    @field_validator("controller")
    @classmethod
    def _check_controller(cls, name: str) -> str:
        return _known_or_own("controller", name, CONTROLLERS) if name else name


class SinkKeys(Settings):
    """Places that take the curves beside the event files."""

    log_to: tuple[str, ...] = key(
        (), "any of mlflow, wandb and trackio, see docs/guides/logging.md", strict=False
    )

    @field_validator("log_to")
    @classmethod
    def _check_log_to(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in LOG_TO:
                raise ValueError(
                    f"there is no {quoted(name)} to log to ({', '.join(LOG_TO)})"
                    f"{did_you_mean(name, LOG_TO)}"
                )
        return tuple(dict.fromkeys(names))


class CheckpointKeys(Settings):
    """Checkpoints on disk and snapshots in memory."""

    checkpoint_seconds: float = key(
        60.0, "seconds from one checkpoint to the next; 0 turns this trigger off", "seconds", ge=0
    )
    checkpoint_steps: int = key(
        0, "env steps from one checkpoint to the next; 0 turns this trigger off", "env steps", ge=0
    )
    checkpoint_keep: int = key(
        2, "latest checkpoints to keep; the best one is kept too", "checkpoints", ge=1
    )
    past_states: int = key(4, "snapshots in memory that `rewind` can return to", "snapshots", ge=0)


class LoopKeys(Settings):
    """The loop that trains the agent, see docs/explanation/loops.md."""

    loop: Literal["plain", "concurrent", "compiled", "remote"] = key(
        "plain", "the loop that trains the agent, see docs/explanation/loops.md"
    )
    chunk: int = key(500, "time steps per call of the compiled loop", "time steps", ge=1)


class ActorKeys(Settings):
    """Actors of the remote loop: processes that step the envs, perhaps on other machines.

    Each has `num_envs` envs of its own. See docs/guides/actors.md.
    """

    actors: int = key(4, "number of actors", "actors", ge=1, le=10_000)
    actor_steps: int = key(
        50, "time steps that an actor makes for one delivery of rows", "time steps", ge=1, le=10_000
    )
    actor_pace: Literal["phases", "free"] = key(
        "phases",
        "phases: all actors make one delivery, then the next; free: no actor waits for another one",
    )
    actor_ahead: int = key(
        2,
        "deliveries that a free-running actor may be ahead of the learner",
        "deliveries",
        ge=1,
        le=64,
    )
    actor_alpha: float = key(
        7.0,
        "actor i of A explores with probability epsilon ** (1 + actor_alpha * i / (A - 1)); with 0 "
        "all explore alike",
        "1",
        ge=0,
    )
    actor_priorities: bool = key(
        False,
        "rows enter a prioritized replay with the TD error that their actor found, not with the "
        "largest priority so far",
    )


class MachineKeys(Settings):
    """Threads and compilers."""

    threads: int = key(
        1,
        "threads inside one operation; with 1, the same seed gives the same bits",
        "threads",
        ge=1,
        le=1_024,
    )
    xla: bool = key(
        True, "compiles learning phases with XLA; a phase of one update only if threads = 1"
    )
    onednn: bool = key(
        False, "uses oneDNN: convolutions are faster, small layers slower, and the last bits differ"
    )


class OwnKeys(Settings):
    """Live values of the user's own."""

    live: dict[str, OwnLive] = key({}, "your own live values, see docs/guides/own_network.md")

    @classmethod
    def in_shares(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values of a run that begins, those of own live values too."""
        values = super().in_shares(values)
        if isinstance(own := values.get("live"), Mapping):
            values["live"] = {name: OwnLive.table_in_shares(value) for name, value in own.items()}
        return values


# Pydantic takes the fields of the last base first: env_id is the first key, live the last.
class DqnConfig(
    OwnKeys,
    MachineKeys,
    ActorKeys,
    LoopKeys,
    CheckpointKeys,
    SinkKeys,
    ControllerKeys,
    EvaluationKeys,
    ExplorationKeys,
    LearningKeys,
    DataKeys,
    RolloutKeys,
    ReplayKeys,
    TargetKeys,
    RecurrentKeys,
    NetworkKeys,
    RewardKeys,
    EnvKeys,
):
    """All settings of one DQN run.

    Mnih et al. (2015), https://doi.org/10.1038/nature14236. An *env step* is one transition of
    one env, an *update* is one gradient step.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _fill_in(cls, values: Any, handler: ModelWrapValidatorHandler[DqnConfig]) -> DqnConfig:
        """Fills in defaults that depend on other keys, which do not count as given."""
        filled = _dependent_defaults(values) if isinstance(values, dict) else {}
        config = handler(values | filled if filled else values)
        config.__pydantic_fields_set__.difference_update(filled)
        return config

    @classmethod
    def near(cls, key: str, names: Iterable[str]) -> str:
        """Returns a hint at the key that was meant: of another library's name, else the nearest."""
        return near_key(key, names)

    @field_validator("live")
    @classmethod
    def _check_own_names(cls, live: dict[str, OwnLive], info: ValidationInfo) -> dict[str, OwnLive]:
        check_names(live, cls.model_fields)
        # Without a valid length the config is refused anyway.
        env_steps = info.data.get("env_steps", 1)
        return {name: own.over(env_steps) for name, own in live.items()}

    @model_validator(mode="after")
    def _check_combinations(self) -> DqnConfig:
        check_combinations(self)
        return self

    def with_shared_defaults(self, names: Iterable[str]) -> DqnConfig:
        """Returns the base of configs, such as members, that differ from it in these keys.

        A default that depends on one of the keys is then the same for all of them.
        """
        given, names = self.model_fields_set, set(names)
        changes: dict[str, Any] = {}
        about_copies = names & {*_OF_FULL_COPIES, "controller"}
        if about_copies and "tau" not in given | names and not self.rollout:
            changes |= _FULL_COPIES
        if names & {"head", "huber_delta"}:
            changes["loss"] = "huber"
        changes = {n: value for n, value in changes.items() if n not in given | names}
        return self.model_copy(update=changes) if changes else self

    @property
    def is_recurrent(self) -> bool:
        """Returns True if the network has a recurrent layer."""
        return self.recurrent != "none"

    @property
    def own_live_names(self) -> tuple[str, ...]:
        """Names of the user's own live values; a network of rl_core reads none of them."""
        return () if self.network in NETWORKS else tuple(self.live)

    @property
    def stored_stack(self) -> int:
        """Rows that an observation that is learned from is made of.

        Where actors deliver them, rows of one env do not lie one after the other, so each stores a
        whole observation.
        """
        return 1 if self.loop == "remote" else self.frame_stack

    @property
    def longest_step(self) -> int:
        """Env steps that a step of a sequence spans at most: the largest `n_step` of its schedule.

        Sequences are as long as this needs, so a live `n_step` cannot be more.
        """
        if isinstance(self.n_step, int):
            return self.n_step
        return math.ceil(self.n_step.extremes()[1])

    @property
    def updates_per_rollout(self) -> int:
        """Updates that are made of each rollout; 0 with a replay."""
        return self.epochs * self.rollout * self.num_envs // self.batch_size if self.rollout else 0

    @property
    def delivered_at_once(self) -> int:
        """Time steps of rows that the remote loop stores between two safe points."""
        # A delivery has one row more than its actor made steps: what they led to.
        return (self.actor_steps + 1) * (self.actors if self.actor_pace == "phases" else 1)

    @property
    def ends_of_support(self) -> tuple[float, float]:
        """Returns of the first and the last atom; HL-Gauss has them in the middle of its bins."""
        if self.loss != "hl_gauss":
            return self.v_min, self.v_max
        half = (self.v_max - self.v_min) / (2 * self.atoms)
        return self.v_min + half, self.v_max - half

    def without_effect(self) -> dict[str, str]:
        """Returns the live values that do nothing in this run, each with the setting it needs."""
        return without_effect(self)
