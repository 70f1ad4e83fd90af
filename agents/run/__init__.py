"""One run's life.

train.py              train and resume: makes everything, and lets a Run go
agent_factory.py      makes the agent of a config
resume_plan.py        ResumePlan: a run that goes on, checked and brought back
announcements.py      the lines of a run before it trains
run.py                Run: puts the parts together, trains, saves, evaluates, ends
loop_runner.py        LoopRunner: the loop, and the work that is due between its time steps
actors.py             the actors of a remote loop, and their part of a checkpoint
controller_runner.py  ControllerRunner: calls the controller of a config
exchanges.py          exchanges between members, as the run of one sees them
control.py            RunControl: the commands that a run takes
evaluations.py        greedy evaluations between two time steps
saver.py              checkpoints on the way, weights and digest at the end
checkpoints.py        checkpoints, taken between two time steps and written by a thread
rollback.py           the files of a run that goes on
initial_weights.py    the weights with which it began, if another run gave them
outcome.py            the result of a run
curves.py             turns the loop's ticks into curves
copy_curves.py        the curves of the target's copies
histograms.py         histograms of weights and gradients
points.py             points of curves on their way to all sinks
sinks.py              MetricSink: a place that takes curves and texts
event_files.py        the first sink: TensorBoard's event files
outbox.py             a sink that hands points to another package's store
mlflow_store.py       a run at MLflow
wandb_store.py        a run at Weights & Biases
wandb_file.py         reads a W&B run's own file
trackio_store.py      a run in Trackio's database
sink_choice.py        the sinks that a run reports to
clock.py              the seconds of training, and its speed
terminal.py           Display: the progress of one run
screen.py             Screen: the progress of one run or several on the terminal
trace.py              a checksum of every time step
repeat.py             runs a recorded run again, and compares
signals.py            Ctrl-C, SIGTERM and SIGHUP as requests
quiet.py              imports TensorFlow without its log lines, timed
lazy_tensorflow.py    TensorFlow's API with names that are imported when they are used

Imports: agents.config, agents.controllers, agents.data, agents.dqn, agents.loops, agents.policy,
agents.remote, agents.saved, envs, rl_core.
"""
