"""Metric sinks: the places to which a run reports its curves and texts.

interface.py      MetricSink: what such a place takes
event_files.py    the first sink: TensorBoard's event files
group.py          SinkGroup: hands points to all sinks of a run
outbox.py         a sink that hands points to another package's store
mlflow_store.py   a run at MLflow
wandb_store.py    a run at Weights & Biases, and its file
trackio_store.py  a run in Trackio's database
choice.py         the sinks that a run reports to

Imports: agents.config, agents.saved, rl_core.
"""
