"""Learning of actions with several branches: a branching dueling Q-network."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.heads import HeadKind, LossInputs, head_of
from targetnet.rl_core.branches import by_branch
from targetnet.rl_core.errors import ConfigError
from targetnet.rl_core.losses import TdLoss, branching_target
from targetnet.rl_core.networks import Values


def branching_loss(
    head: HeadKind, terms: LossInputs, choice: tf.Tensor, sizes: Sequence[int]
) -> tuple[TdLoss, tf.Tensor]:
    """Regresses the values of all branches on one target.

        td_error[d] = target - q_tm1[d, a_tm1[d]]
        loss        = mean_d loss(td_error[d])
        priority    = sum_d |td_error[d]|

    with the target of `targetnet.rl_core.losses.branching_target`. Tavakoli, Pardo & Kormushev
    (2018), https://arxiv.org/abs/1711.08946; the loss of each branch is the head's. They also scale
    the gradient of what the branches share down, by 1 / (D + 1), which Adam's steps do not depend
    on where `max_grad_norm` does not clip, and clip each variable alone.

    Args:
      head: learns numbers (`HeadKind.loss_to`).
      terms: of values [B, A].
      choice: [B, A] values by which the next action is chosen.
      sizes: of the branches, [D].

    Returns:
      The loss [B], with a target and a TD error for each branch, [B, D]; and the priority, [B].
    """
    D, batch, now = len(sizes), terms.batch, terms.now
    then = by_branch(terms.then.q, sizes)  # [B, D, n]
    target = branching_target(batch.r_t, batch.discount_t, then, by_branch(choice, sizes))  # [B]
    # Each branch is a transition of its own to the head.
    each = terms._replace(
        batch=batch._replace(a_tm1=tf.reshape(batch.a_tm1, [-1])),  # [B D]
        now=Values(
            _folded(now.q, sizes), None if now.logits is None else _folded(now.logits, sizes)
        ),
    )
    assert head.loss_to is not None  # the config was checked
    td = head.loss_to(each, tf.reshape(tf.tile(target[:, tf.newaxis], [1, D]), [-1]))
    loss, targets, errors = (tf.reshape(of, [-1, D]) for of in td)
    priority = tf.reshape(head.priority(td), [-1, D])
    return (
        TdLoss(tf.reduce_mean(loss, axis=1), targets, errors),
        tf.reduce_sum(priority, axis=1),
    )


def _folded(values: tf.Tensor, sizes: Sequence[int]) -> tf.Tensor:
    """[B, A, ...] -> [B D, n, ...]; no action is in the places that are filled."""
    apart = by_branch(values, sizes, fill=0.0)
    return tf.reshape(apart, [-1, *apart.shape.as_list()[2:]])


def require_branching(config: DqnConfig, branches: Sequence[int]) -> None:
    """Checks that the config can learn actions with these branches; () is always good.

    Raises:
      ConfigError: it cannot; names the key.
    """
    if not branches:
        return
    of_numbers = head_of(config).loss_to is not None
    wrong = {
        f"needs head = 'scalar', or loss = 'hl_gauss', got head = {config.head!r}": not of_numbers,
        "takes the best choice of each branch; leave munchausen out": config.munchausen,
        "averages targets over branches; leave value_rescaling out": config.value_rescaling,
        "explores by epsilon alone; leave boltzmann out": config.boltzmann,
        "needs a replay and a target network; leave rollout out": config.rollout > 0,
        f"needs one network, got chain = {config.chain}": config.chain > 1,
        "has no penalty on values; leave functional_weight, cql_weight and margin_weight out": any(
            map(config.is_built_with, ("functional_weight", "cql_weight", "margin_weight"))
        ),
        "gets its priorities from the learner; leave actor_priorities out": (
            config.loop == "remote" and config.actor_priorities
        ),
    }
    for why, is_wrong in wrong.items():
        if is_wrong:
            raise ConfigError(
                f"{config.env_id} has actions of {len(branches)} numbers (MultiDiscrete or "
                f"MultiBinary), and learning their branches {why}"
            )
