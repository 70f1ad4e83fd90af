"""Entry point of the Steer tab; it imports almost nothing, so that it cannot stop TensorBoard."""

from __future__ import annotations

import argparse
import logging
from typing import Any

try:
    from tensorboard.plugins.base_plugin import TBLoader
except ImportError:  # an unknown version of TensorBoard, which does not use this loader
    TBLoader = object

logger = logging.getLogger("tensorboard.steer")


class SteerLoader(TBLoader):
    """Loader of the plugin; after a failure TensorBoard starts without the tab, with a log line."""

    def define_flags(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("the Steer tab")
        group.add_argument(
            "--steer_allow_host",
            metavar="NAME",
            action="append",
            default=[],
            help="a further host name under which the Steer tab may be used; may be repeated. "
            "Localhost is always allowed.",
        )

    def load(self, context: Any) -> Any:
        try:
            from targetnet.rl_core.board.steer.plugin import SteerPlugin

            return SteerPlugin(context)
        except Exception as error:  # the curves must appear even if the Steer tab fails
            reason = " ".join(str(error).split())[:160]
            logger.warning("the Steer tab is left out: %s: %s", type(error).__name__, reason)
            return None
