"""Scalar curves of a run, out of TensorBoard's memory.

TensorBoard reads the event files itself and keeps at most 1,000 points of each curve, so a request
costs the same however long the files are.
"""

from __future__ import annotations

import re
from typing import Any

from tensorboard import plugin_util
from tensorboard.data.provider import DataProvider, RunTagFilter
from tensorboard.plugins.scalar import metadata as scalar_plugin
from werkzeug.wrappers import Request

from targetnet.rl_core.errors import RlCoreError, in_one_line

MOST_TAGS = 8  # in one request for points
MOST_POINTS = 1_000  # of one curve; TensorBoard keeps no more
_MOST_LISTED = 500  # curves that can be chosen; a run of ours has about 50
_LONGEST_TAG = 200  # characters
# Our event files describe a tag as "Meaning. Unit: updates. X axis: env steps."
_DESCRIPTION = re.compile(r"(.*?)\s*Unit: (.*?)\. X axis: .*", re.DOTALL)


class BadRequest(RlCoreError, ValueError):
    """A request for curves that is not answered."""


class Curves:
    """The scalar curves that TensorBoard has loaded so far.

    Args:
      data_provider: TensorBoard's; None if it has none, and then there are no curves.
    """

    def __init__(self, data_provider: DataProvider | None) -> None:
        self._data_provider = data_provider

    def tags(self, request: Request, run: str) -> list[dict[str, str]]:
        """Returns tag, unit and meaning of a run's curves, in order of the tag."""
        if self._data_provider is None:
            return []
        found = self._data_provider.list_scalars(**_asked(request, run)).get(run, {})
        shown = sorted(tag for tag in found if 0 < len(tag) <= _LONGEST_TAG)[:_MOST_LISTED]
        return [{"tag": tag} | _described(found[tag].description) for tag in shown]

    def points(
        self, request: Request, run: str, tags: list[str], most: int
    ) -> dict[str, list[tuple[int, float]]]:
        """Returns at most `most` points [env step, value] of each of these curves of a run.

        Raises:
          BadRequest: too many curves, or not 1 to MOST_POINTS points.
        """
        if not 1 <= most <= MOST_POINTS:
            raise BadRequest(f"points must be 1 to {MOST_POINTS}, got {most}")
        if len(tags) > MOST_TAGS:
            raise BadRequest(f"at most {MOST_TAGS} curves in one request, got {len(tags)}")
        if self._data_provider is None or not tags:
            return {}
        found = self._data_provider.read_scalars(downsample=most, **_asked(request, run, tags))
        return {
            tag: [(p.step, p.value) for p in points] for tag, points in found.get(run, {}).items()
        }


def _asked(request: Request, run: str, tags: list[str] | None = None) -> dict[str, Any]:
    """Returns the arguments that every question to the data provider has."""
    return {
        "ctx": plugin_util.context(request.environ),
        "experiment_id": plugin_util.experiment_id(request.environ),
        "plugin_name": scalar_plugin.PLUGIN_NAME,
        "run_tag_filter": RunTagFilter(runs=[run], tags=tags),
    }


def _described(description: str) -> dict[str, str]:
    """Returns unit and meaning of a curve, each in one short line."""
    text = description[:1_000]
    meaning, unit = match.groups() if (match := _DESCRIPTION.fullmatch(text)) else (text, "")
    return {"unit": in_one_line(unit, 40), "meaning": in_one_line(meaning, 300)}
