"""Losses: one value per transition, never reduced."""

from rl_core.losses.td import TdLoss, double_q_learning, huber, q_learning, squared

__all__ = ["TdLoss", "double_q_learning", "huber", "q_learning", "squared"]
