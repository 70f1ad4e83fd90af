"""One run's life.

train.py              train and resume: makes everything, and lets a Run go
run.py                Run: puts the parts together, trains, saves, evaluates, ends
loop_runner.py        LoopRunner: the loop, and the work that is due between its time steps
agent_factory.py      makes the agent of a config, with the weights that it begins with
resume.py             ResumePlan: a run that goes on, checked and brought back
repeat.py             runs a recorded run again, and compares
control.py            RunControl: the commands that a run takes
controller_runner.py  ControllerRunner: calls the controller of a config
exchanges.py          exchanges between members, as the run of one sees them
evaluations.py        greedy evaluations between two time steps
checkpoints.py        checkpoints on the way, weights and digest at the end
curves.py             turns the loop's ticks into curves, of the target's copies too; histograms
trace.py              a checksum of every time step
clock.py              the seconds of training, and its speed
display.py            the progress of one run or several on the terminal
announcements.py      the lines of a run before it trains
outcome.py            the result of a run
process.py            TensorFlow imported quickly and without its log lines; Ctrl-C as a request

Imports: agents.config, agents.controllers, agents.data, agents.dqn, agents.loops, agents.policy,
agents.remote, agents.saved, agents.sinks, envs, rl_core.
"""
