"""Live values of a DQN agent: its config's live fields, the exempt set, the arms' lengths.

`python -m targetnet.agents.config.live_values` prints docs/reference/live_values.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.synonyms import near_key
from targetnet.rl_core.control.commands import ACTIONS
from targetnet.rl_core.hyperparameters import BlocksKnob, Hyperparameters, Knob

if TYPE_CHECKING:
    from targetnet.rl_core.optimizers.freeze import ApplyOps, FreezeSchedule


# What people change most stands first, wherever live values are listed.
_FIRST = ("sync_period", "tau", "learning_rate", "epsilon")


def live_values(config: DqnConfig, freeze: FreezeSchedule, ops: ApplyOps) -> Hyperparameters:
    """Returns the values that may be set during a run.

    Every other key of the config is static: setting it is refused.
    """
    knobs = _most_changed_first(live_knobs(config))
    configured = configured_values(config)
    static = DqnConfig.model_fields.keys() - configured.keys()
    exempt = BlocksKnob("exempt", ops.check, ops.names)
    arms = _arm_knobs(config)
    configured |= {arm_name(i): arm.updates for i, arm in enumerate(config.freeze)}
    configured["exempt"] = freeze if config.freeze else frozenset()
    return Hyperparameters(
        [*knobs, exempt, *arms], configured, static, config.without_effect(), near=near_key
    )


def _most_changed_first(knobs: Iterable[Knob]) -> list[Knob]:
    """Returns them with those that people change most before all others."""
    place = {name: i for i, name in enumerate(_FIRST)}
    return sorted(knobs, key=lambda knob: place.get(knob.name, len(place)))


def live_knobs(config: DqnConfig) -> list[Knob]:
    """Returns the live fields that have an effect under this config, then the user's own."""
    without_effect = config.without_effect()
    fields = [knob for knob in DqnConfig.knobs() if knob.name not in without_effect]
    if config.is_recurrent:
        most = config.longest_step
        fields = [replace(k, at_most=most) if k.name == "n_step" else k for k in fields]
    return fields + [own.knob(name) for name, own in config.live.items()]


def number_knobs(config: DqnConfig) -> list[Knob]:
    """Returns all live values that are numbers: those in `live_knobs`, and the arms' lengths."""
    return [*live_knobs(config), *_arm_knobs(config)]


def configured_values(config: DqnConfig) -> dict[str, Any]:
    """Returns name -> number or schedule of every knob in `live_knobs`."""
    own = {name: value.default for name, value in config.live.items()}
    return {
        k.name: own.get(k.name) if k.name in own else getattr(config, k.name)
        for k in live_knobs(config)
    }


def own_values(config: DqnConfig, overrides: Mapping[str, Any], env_step: int) -> dict[str, float]:
    """Returns the user's own live values as they are at an env step.

    Args:
      overrides: values that were set, by name; others may be among them.
    """
    configured = {name: own.default for name, own in config.live.items()}
    live = Hyperparameters([own.knob(n) for n, own in config.live.items()], configured)
    live.env_step = env_step
    for name in live:
        if name in overrides:
            live.set(name, overrides[name])
    return dict(live)


def live_names(config: DqnConfig) -> list[str]:
    """Returns the names of all live values, also of those without an effect under this config."""
    arms = [arm_name(arm) for arm in range(len(config.freeze))]
    return [*(knob.name for knob in live_knobs(config)), *config.without_effect(), "exempt", *arms]


def arm_name(arm: int) -> str:
    """Returns the name of the live value that holds the length of an arm."""
    return f"arm_{arm}_updates"


def _arm_knobs(config: DqnConfig) -> list[Knob]:
    return [_arm_knob(number, arm.exempt) for number, arm in enumerate(config.freeze)]


def _arm_knob(arm: int, exempt: tuple[str, ...]) -> Knob:
    return Knob(
        arm_name(arm),
        unit="updates",
        meaning=f"length of freeze arm {arm}, which exempts {'+'.join(exempt) or 'no block'}",
        effect="next update; if the arm is active and already this old, it ends",
        whole=True,
        at_least=1,
    )


def as_markdown() -> str:
    """Returns the docs page of all live values and actions."""
    knobs: list[Knob | BlocksKnob] = [
        *_most_changed_first(DqnConfig.knobs()),
        BlocksKnob("exempt", frozenset, ()),
    ]
    arm = _arm_knob(0, ("head",))
    rows = [f"| `{k.name}` | {k.unit} | {k.bounds} | {k.meaning} | {k.effect} |" for k in knobs]
    rows.append(
        f"| `{arm_name(0)}`, ... | {arm.unit} | {arm.bounds} | length of this arm of the "
        f"config's `freeze` | {arm.effect} |"
    )
    actions = [f"| `{name}` | {meaning} |" for name, meaning in ACTIONS.items()]
    return _PAGE.format(values="\n".join(rows), actions="\n".join(actions))


_PAGE = """\
# Live values and actions

<!-- Generated from agents/config/*_keys.py and rl_core/control/commands.py by make docs. -->

You may change every value below during a run: with `targetnet set RUN name=value`, in the Steer
tab, from another process with `RunClient(RUN).set(name, value)`, or within the run with
`agent.hyperparameters[name] = value`. All ways check the value in the same place, and each change
is one line of the run's `control/log.jsonl`.

*When.* A change is applied at the next **safe point**: between two time steps of all envs, never
inside a learning phase. The log records the update and the env step at which the change was
applied. An *update* is one gradient step, an *env step* is one transition of one env.

*Which value counts.* A value that you set stays until you set it again; a schedule of the config
does not overwrite it. `name=auto` returns to the config's value. If the config has a schedule,
`auto` returns to the schedule's value at the present env step.

*Periods are ages.* `sync_period = 500` means: the 500th update after a sync makes the next sync.
If you shorten the period below the target's present age, the very next update syncs the target.
`sync_period` need not be a multiple of `learn_period` or of any other number: 501 means 501.
Where `tau` is below 1, as by default, a sync moves the target by that share; for full copies set
both: `targetnet set RUN sync_period=100 tau=1`.

| name | unit | bounds | meaning | a change takes effect at the |
|---|---|---|---|---|
{values}

The network names the blocks: `torso` and `head`, or `torso`, `value` and `advantage` with a dueling
head. `exempt=head` trains all blocks but the head, `exempt=none` trains all blocks, `exempt=auto`
returns to the config's `freeze` schedule.

A config may declare live values of its own, `[live.NAME]`, which a network of your own reads:
[Your own live values](../guides/own_network.md#your-own-live-values).

All other keys of a config are fixed when the graph is built. `set` refuses them, and the error
message says how to start a new run with the wanted value.

## Actions

Run `targetnet do RUN ACTION`, or press a button of the Steer tab.

| action | what it does |
|---|---|
{actions}
"""


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
