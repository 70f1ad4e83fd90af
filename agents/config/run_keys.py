"""Keys of the run: evaluations, controller, checkpoints, loop, actors, machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import field_validator

from targetnet.agents.config.own_live import OwnLive
from targetnet.agents.config.settings import (
    LiveInt,
    Settings,
    key,
    known_or_own,
    live,
    require_toml,
)
from targetnet.rl_core.errors import did_you_mean, quoted

# Those of agents/controllers; a user's own is named "module:function".
CONTROLLERS = ("copy_when_fit", "copy_when_far", "period_bandit")
# Packages that take curves, see docs/guides/logging.md: the class of agents/sinks that stores them
# there, and the modules that the extra of this name installs. Without the last two mlflow-skinny
# cannot write its default, a database of one file.
LOG_TO = {
    "mlflow": ("mlflow_store:MlflowStore", ("mlflow", "sqlalchemy", "alembic")),
    "wandb": ("wandb_store:WandbStore", ("wandb",)),
    "trackio": ("trackio_store:TrackioStore", ("trackio",)),
}


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
        "",
        f'{", ".join(CONTROLLERS)}, or your own as "module:function"; empty for none',
        values="text",
    )
    controller_period: int = key(
        1_000, "env steps from one call of the controller to the next", "env steps", ge=1
    )
    controller_args: dict[str, Any] = key(
        {},
        "arguments of the controller, by name",
        values="table",
    )

    @field_validator("controller_args")
    @classmethod
    def _check_arguments_of_controller(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        return require_toml(arguments)

    @field_validator("controller")
    @classmethod
    def _check_controller(cls, name: str) -> str:
        return known_or_own("controller", name, CONTROLLERS) if name else name


class SinkKeys(Settings):
    """Places that take the curves beside the event files."""

    log_to: tuple[str, ...] = key(
        (),
        "any of mlflow, wandb and trackio, see docs/guides/logging.md",
        strict=False,
        values="list of texts",
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
        "plain",
        "the loop that trains the agent, see docs/explanation/loops.md",
        papers=("Daley & Amato 2021", "Horgan et al. 2018"),
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
        papers=("Horgan et al. 2018",),
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
        papers=("Horgan et al. 2018",),
    )
    actor_priorities: bool = key(
        False,
        "rows enter a prioritized replay with the TD error that their actor found, not with the "
        "largest priority so far",
        papers=("Horgan et al. 2018",),
    )


class MachineKeys(Settings):
    """Threads and compilers."""

    threads: int = key(
        1,
        "threads inside one operation; another number may give other bits",
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

    live: dict[str, OwnLive] = key(
        {},
        "your own live values, see docs/guides/own_network.md",
        values="tables `[live.NAME]`",
    )

    @classmethod
    def in_shares(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values of a run that begins, those of own live values too."""
        values = super().in_shares(values)
        if isinstance(own := values.get("live"), Mapping):
            values["live"] = {name: OwnLive.table_in_shares(value) for name, value in own.items()}
        return values
