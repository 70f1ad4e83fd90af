"""Losses: one value per transition, never reduced.

Imports: rl_core.errors.
"""

from rl_core.losses.branching import branching_target
from rl_core.losses.categorical import categorical_projection, categorical_q_learning, support
from rl_core.losses.conservative import conservative_penalty
from rl_core.losses.demonstrations import large_margin
from rl_core.losses.hl_gauss import gaussian_histogram, hl_gauss
from rl_core.losses.masking import legal_only
from rl_core.losses.munchausen import (
    log_policy,
    munchausen_bonus,
    munchausen_q_learning,
    munchausen_quantile,
    soft_bootstrap,
)
from rl_core.losses.quantile import quantile_huber, quantile_midpoints, quantile_q_learning
from rl_core.losses.rescaling import rescaled, unscaled
from rl_core.losses.returns import lambda_returns
from rl_core.losses.stillness import blend, functional_penalty
from rl_core.losses.td import TdLoss, double_q_learning, huber, q_learning, squared

__all__ = [
    "TdLoss",
    "blend",
    "branching_target",
    "categorical_projection",
    "categorical_q_learning",
    "conservative_penalty",
    "double_q_learning",
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
