"""Envs whose rules are tensor operations: N copies step inside the graph, without Python.

    interface.py      InGraphEnv, EnvStep: the interface of such rules
    resident.py       such envs as a run's Envs; the agent steps them
    table.py          the ids, and the making of an env's rules
    cartpole.py       CartPole-v1, Gymnasium's rules
    mountain_car.py   MountainCar-v0, Gymnasium's rules
    acrobot.py        Acrobot-v1, Gymnasium's rules
    catch.py          Catch, bsuite's rules
    minatar.py        the parts that the five MinAtar games share
    minatar_*.py      Asterix, Breakout, Freeway, Seaquest, SpaceInvaders, MinAtar's rules
    trigonometry.py   cosine and sine that are fast when compiled
    gymnasium_env.py  any of these envs as an ordinary Gymnasium env

This file imports nothing, so that the ids are available without TensorFlow.

Imports: envs.minatar, envs.spaces, envs.stacks, envs.drivers, rl_core.errors, rl_core.graph,
rl_core.random.
"""
