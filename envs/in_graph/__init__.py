"""Envs whose rules are tensor operations: N copies step inside the graph, without Python.

    interface.py      InGraphEnv, Moved: what such rules are
    table.py          the ids there are; making the rules of one
    cartpole.py       CartPole-v1, Gymnasium's rules
    mountain_car.py   MountainCar-v0, Gymnasium's rules
    acrobot.py        Acrobot-v1, Gymnasium's rules
    catch.py          Catch, bsuite's rules
    minatar.py        what the five games share
    minatar_*.py      Asterix, Breakout, Freeway, Seaquest, SpaceInvaders, MinAtar's rules
    trigonometry.py   cosines and sines that are fast when compiled
    gymnasium_env.py  any of them as an ordinary Gymnasium env

Nothing is imported here: the ids are known without TensorFlow.

Imports: envs.interface, envs.minatar, envs.spaces, rl_core.errors, rl_core.graph, rl_core.random.
"""
