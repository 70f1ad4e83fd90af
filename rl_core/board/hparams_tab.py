"""The HParams tab with what differs between runs and then their returns, for the quick launcher.

TensorBoard makes the columns of the hyperparameters itself, of all there are, unless one of the
runs has said which columns there are. Runs of version 0.1 have said so; here that is passed over.
Metrics stand behind all of them, sorted by name, and it shows the first five.
"""

from typing import Any

from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams.backend_context import Context
from tensorboard.plugins.hparams.hparams_plugin import HParamsPlugin

FIRST = ("evaluation/return", "episode/return")


class ReturnsFirst(HParamsPlugin):
    """TensorBoard's plugin, with fewer columns in another order."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self._context = _Columns(context)


# The methods are private: if they get other names, TensorBoard's own order returns.
class _Columns(Context):
    def _find_experiment_tag(self, runs: Any, include_metrics: bool) -> api_pb2.Experiment | None:
        found = super()._find_experiment_tag(runs, True)
        if found is None or {metric.name.tag for metric in found.metric_infos} == {*FIRST}:
            return None
        return super()._find_experiment_tag(runs, include_metrics)

    def _compute_hparam_infos(self, *about: Any) -> list[api_pb2.HParamInfo]:
        infos = super()._compute_hparam_infos(*about)
        return [info for info in infos if info.differs] or infos

    def _compute_metric_names(self, *about: Any) -> list[tuple[str, str]]:
        names = super()._compute_metric_names(*about)
        return sorted(names, key=lambda name: _place(name[0]))


def _place(tag: str) -> int:
    return FIRST.index(tag) if tag in FIRST else len(FIRST)
