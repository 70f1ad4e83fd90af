"""Losses: one value per transition, never reduced.

td.py                   numbers: Q-learning, double, and the losses of an error
categorical.py          distributions over fixed atoms
quantile.py             quantiles of the return
hl_gauss.py             a number by cross-entropy with a histogram
munchausen.py           values of a soft policy, and its bonus
returns.py              returns over many steps
branching.py            actions with several branches
masking.py              action masks
rescaling.py            a function that makes large returns small
target_regularizers.py  other ways to hold a target still
conservative.py         a penalty on actions that are not in the data
demonstrations.py       a margin around the action that was shown

Imports: rl_core.errors, rl_core.own_gradient.
"""

from targetnet.rl_core.losses.branching import branching_target
from targetnet.rl_core.losses.categorical import (
    categorical_projection,
    categorical_q_learning,
    support,
)
from targetnet.rl_core.losses.conservative import conservative_penalty
from targetnet.rl_core.losses.demonstrations import large_margin
from targetnet.rl_core.losses.hl_gauss import gaussian_histogram, hl_gauss
from targetnet.rl_core.losses.masking import legal_only
from targetnet.rl_core.losses.munchausen import (
    log_policy,
    munchausen_bonus,
    munchausen_q_learning,
    munchausen_quantile,
    soft_bootstrap,
)
from targetnet.rl_core.losses.quantile import (
    fraction_loss,
    quantile_huber,
    quantile_midpoints,
    quantile_q_learning,
)
from targetnet.rl_core.losses.rescaling import rescaled, unscaled
from targetnet.rl_core.losses.returns import lambda_returns
from targetnet.rl_core.losses.target_regularizers import blend, functional_penalty
from targetnet.rl_core.losses.td import TdLoss, double_q_learning, huber, q_learning, squared

__all__ = [
    "TdLoss",
    "blend",
    "branching_target",
    "categorical_projection",
    "categorical_q_learning",
    "conservative_penalty",
    "double_q_learning",
    "fraction_loss",
    "functional_penalty",
    "gaussian_histogram",
    "hl_gauss",
    "huber",
    "lambda_returns",
    "large_margin",
    "legal_only",
    "log_policy",
    "munchausen_bonus",
    "munchausen_q_learning",
    "munchausen_quantile",
    "q_learning",
    "quantile_huber",
    "quantile_midpoints",
    "quantile_q_learning",
    "rescaled",
    "soft_bootstrap",
    "squared",
    "support",
    "unscaled",
]
