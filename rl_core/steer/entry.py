"""What TensorBoard loads for the Steer tab: tiny, so that it cannot stop TensorBoard."""

from __future__ import annotations

import argparse
import logging
from typing import Any

try:
    from tensorboard.plugins.base_plugin import TBLoader
except ImportError:  # another TensorBoard than we know, which will not ask for a loader either
    TBLoader = object

logger = logging.getLogger("tensorboard.steer")


class SteerLoader(TBLoader):
    """Makes the plugin, or leaves the tab out with one line in TensorBoard's log."""

    def define_flags(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("the Steer tab")
        group.add_argument(
            "--steer_allow_host",
            metavar="NAME",
            action="append",
            default=[],
            help="another host name under which the Steer tab may be used; may be given more "
            "than once. Localhost always may.",
        )

    def load(self, context: Any) -> Any:
        try:
            from rl_core.steer.plugin import SteerPlugin

            return SteerPlugin(context)
        except Exception as error:  # whatever it is, curves are more important
            reason = " ".join(str(error).split())[:160]
            logger.warning("the Steer tab is left out: %s: %s", type(error).__name__, reason)
            return None
