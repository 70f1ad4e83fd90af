"""The calls that make several updates of an agent at once: one for each exempt set of a config."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.update import Update, UpdateOutputs
from targetnet.rl_core.graph.finite import checked
from targetnet.rl_core.optimizers.freeze_schedule import Exempt, FreezeSchedule
from targetnet.rl_core.optimizers.fused import fused_updates
from targetnet.rl_core.optimizers.packed_adam import LoopAdam, LoopMoments
from targetnet.rl_core.optimizers.phase import FusedCalls

# Networks of whole frames.
FRAMES = ("nature", "impala")


def fused_calls(
    config: DqnConfig,
    update: Update,
    moments: LoopMoments,
    freeze: FreezeSchedule,
    blocks: Sequence[str],
    like: UpdateOutputs,
) -> tuple[dict[Exempt, FusedCalls], int]:
    """Builds them.

    Args:
      config, update, moments, freeze, blocks: of the agent.
      like: outcome of an update, for shapes.

    Returns:
      Exempt set -> updates in one call; and from how many updates on these serve.
    """
    # Only the exempt sets in the config are compiled; any other set runs plain operations. So
    # do networks of whole frames, whose convolutions are faster so, and phases of one update
    # where operations share their work between threads.
    more_than_one = config.updates_per_learn != 1 or config.num_envs > 1 or config.rollout > 0
    one_too = config.xla and config.threads == 1
    min_updates = 1 if one_too else 2
    if config.network in FRAMES or not (more_than_one or one_too):
        return {}, min_updates
    count = tf.placeholder(tf.int32, [], "updates") if more_than_one else None
    calls = {}
    # Not a set: its order differs between processes, and a stored compilation would not be found.
    for exempt in dict.fromkeys(arm.exempt for arm in freeze.arms):
        trained = [name for name in blocks if name not in exempt]
        adam = LoopAdam(moments, trained, exempt if config.on_sync else ())
        calls[exempt] = _fused(config, update, adam, count, like)
    return calls, min_updates


def _fused(
    config: DqnConfig, update: Update, adam: LoopAdam, count: tf.Tensor | None, like: UpdateOutputs
) -> FusedCalls:
    last = fused_updates(
        lambda moments: update.in_loop(adam, moments), count, like, adam, compiled=config.xla
    )
    learned = UpdateOutputs(*last)
    return FusedCalls(learned.stats(), checked(learned.signs).op, count)
