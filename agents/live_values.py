"""The live values of a DQN agent: those of its config, the exempt set, the arms' lengths.

Imports: agents.config, rl_core.
"""

from __future__ import annotations

from agents.config import DqnConfig
from rl_core.graph.freeze import ApplyOps, FreezeSchedule
from rl_core.hyperparameters import BlocksKnob, Hyperparameters, Knob


def live_values(config: DqnConfig, freeze: FreezeSchedule, ops: ApplyOps) -> Hyperparameters:
    """What may be set while a run goes on; every other name of the config is static."""
    knobs = DqnConfig.knobs()
    configured = {knob.name: getattr(config, knob.name) for knob in knobs}
    static = DqnConfig.model_fields.keys() - configured.keys()
    exempt = BlocksKnob("exempt", ops.check, ops.names)
    arms = [_arm_knob(i, arm.exempt) for i, arm in enumerate(config.freeze)]
    configured |= {arm_name(i): arm.updates for i, arm in enumerate(config.freeze)}
    configured["exempt"] = freeze if config.freeze else frozenset()
    return Hyperparameters([*knobs, exempt, *arms], configured, static=static)


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
