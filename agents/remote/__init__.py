"""Actors: envs in other processes, perhaps on other machines, which deliver rows to the learner.

What an actor runs needs no TensorFlow, unless its network does.

loop.py          the loop that uses them
run_actors.py    the actors of a run, and their part of a checkpoint
deliveries.py    requests to an actor, and its answers
collector.py     an actor's work: steps its envs and explores; plain Python
numpy_policy.py  action values of a network in NumPy
graph_policy.py  action values of the other networks, by a graph
priorities.py    priorities with which rows enter the replay
transport.py     the interface to actors, wherever they are; actors in this process
ray_actors.py    actors in a Ray cluster
actor_pool.py    all actors of a run: asks, takes in order, replaces those that are lost
remote_envs.py   the envs of such a run, as the rest of the run sees them

Imports: agents.cluster, agents.config, agents.dqn, agents.loops, agents.saved, envs, rl_core.
"""
