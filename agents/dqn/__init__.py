"""The DQN agent: one graph in which acting, storing, learning and syncing happen.

agent.py            DqnAgent: one agent, as envs and loops see it; how it is put together
population.py       P agents of one form on one graph
network.py          the config's network: torso, recurrent layer, head; alone or as a chain
own_network.py      a network function of the user's own
heads.py            the table of heads: how each is built, and how it learns
network_scopes.py   online, target and averaged networks, each under its scope; copy ops
target.py           the target's clock: when it is synced; syncs by hand
sync_rule.py        syncs that follow the run: a growing period, a good fit, a distance
acting.py           chooses actions, stores what envs show, remembers recurrent states
policy.py           greedy and exploring choice of actions in the graph
memory.py           the replay memory that the config says, or that of one rollout
objective.py        what a batch's values are regressed on; branches and demonstrations
sequences.py        the same over time: sequences (R2D2) and rollouts (PQN)
update.py           one update: sample, objective, gradients, apply, averages, sync
learner.py          phases of updates, the calls that make them, the pull to the target's weights
compiled.py         many time steps in one call, for envs in the graph
live_feeds.py       live values as two arrays that calls are fed
normalizer.py       observations by the mean and variance of what was shown
state.py            weights, digest, snapshots, action values; saves and restores an agent
weight_resets.py    resets, perturbs and recycles weights
update_batching.py  one update of many members in one call
memory_estimate.py  how much memory an agent needs

Imports: agents.config, envs.in_graph, envs.stacks, rl_core.
"""
