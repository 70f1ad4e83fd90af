"""The live values of a DQN agent: those of its config, the exempt set, the arms' lengths.

`python -m agents.config.live_values` prints the docs page that states what each one does.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from agents.config.model import DqnConfig
from rl_core.control.commands import ACTIONS
from rl_core.hyperparameters import BlocksKnob, Hyperparameters, Knob

if TYPE_CHECKING:
    from rl_core.optimizers.freeze import ApplyOps, FreezeSchedule


def live_values(config: DqnConfig, freeze: FreezeSchedule, ops: ApplyOps) -> Hyperparameters:
    """What may be set while a run goes on; every other name of the config is static."""
    knobs = live_knobs(config)
    configured = {knob.name: getattr(config, knob.name) for knob in knobs}
    static = DqnConfig.model_fields.keys() - configured.keys()
    exempt = BlocksKnob("exempt", ops.check, ops.names)
    arms = [_arm_knob(i, arm.exempt) for i, arm in enumerate(config.freeze)]
    configured |= {arm_name(i): arm.updates for i, arm in enumerate(config.freeze)}
    configured["exempt"] = freeze if config.freeze else frozenset()
    return Hyperparameters(
        [*knobs, exempt, *arms], configured, static, without_effect=config.without_effect()
    )


def live_knobs(config: DqnConfig) -> list[Knob]:
    """Those of the config's live fields that do something in its run."""
    return [knob for knob in DqnConfig.knobs() if knob.name not in config.without_effect()]


def arm_name(arm: int) -> str:
    """Of the live value that is the length of a freeze schedule's arm."""
    return f"arm_{arm}_updates"


def _arm_knob(arm: int, exempt: tuple[str, ...]) -> Knob:
    return Knob(
        arm_name(arm),
        unit="updates",
        meaning=f"length of freeze arm {arm}, which leaves {'+'.join(exempt) or 'no block'} alone",
        effect="next update; an arm in its turn that is this old already ends",
        whole=True,
        at_least=1,
    )


def as_markdown() -> str:
    """The docs page of all live values and actions."""
    knobs: list[Knob | BlocksKnob] = [*DqnConfig.knobs(), BlocksKnob("exempt", frozenset, ())]
    arm = _arm_knob(0, ("head",))
    rows = [f"| `{k.name}` | {k.unit} | {k.bounds} | {k.meaning} | {k.effect} |" for k in knobs]
    rows.append(
        f"| `{arm_name(0)}`, ... | {arm.unit} | {arm.bounds} | length of that arm of the config's "
        f"`freeze` | {arm.effect} |"
    )
    actions = [f"| `{name}` | {meaning} |" for name, meaning in ACTIONS.items()]
    return _PAGE.format(values="\n".join(rows), actions="\n".join(actions))


_PAGE = """\
# Live values and actions

Generated from `agents/config/model.py` and `rl_core/control/commands.py` by `make docs`.

Everything below may be changed while a run goes on: with `targetnet set RUN name=value`, in the
Steer tab, or from Python with `agent.hyperparameters[name] = value`. Whichever way, it goes through
one door and is one line of `control/log.jsonl`.

*When.* A change is applied at the next **safe point**: between two time steps of all envs, never
inside a learning phase. The log has the update and the env step at which it landed. An *update* is
one gradient step, an *env step* one transition of one env.

*Which value counts.* What was set stays until it is set again; a schedule of the config does not
write over it. `name=auto` returns to the config's value, or to its schedule as it is by then.

*Periods are ages.* `sync_period = 500` means: copy the target in the update that makes it 500
updates old. Shortened below the present age, the very next update copies. It needs no common
divisor with `learn_period`, and 501 means 501.

| name | unit | bounds | what it is | a change is felt at the |
|---|---|---|---|---|
{values}

Blocks are named by the network: `torso` and `head`, or `torso`, `value` and `advantage` with a
dueling head. `exempt=head` trains the rest, `exempt=none` trains all, `exempt=auto` returns to the
config's `freeze` schedule.

Everything else of a config is fixed when the graph is built. Setting it is refused, and the refusal
says how to start a run that has it.

## Actions

`targetnet do RUN ACTION`, or a button of the Steer tab.

| action | what it does |
|---|---|
{actions}
"""


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
