"""The DQN agent: one graph in which acting, storing, learning and syncing happen.

agent.py                 DqnAgent: one agent, as envs and loops see it
parts.py                 what an agent consists of: what is in the graph, and what it has of its own
population.py            P agents of one form on one graph
batched_update_graph.py  calls by rows of all members: updates of many in one call
update_batching.py       what Python knows around these calls
network_parts.py         the config's network, built once or as a chain
network_outputs.py       networks that were built, called again
torso.py                 its torso, of one array or of an observation's parts; its recurrent layer
networks.py              online, target and averaged networks, each under its scope
heads.py                 the table of heads: how each is built, and how it learns
own_network.py           a network function of the user's own
memory.py                the replay memory that the config says, or that of one rollout
acting_calls.py          the calls into the graph that store what envs show and choose actions
actor.py                 what one agent knows of its acting, around these calls
policy.py                greedy and exploring choice of actions in the graph
epsilon_greedy_numpy.py  epsilon-greedy outside the graph
step_buffer.py           time steps that wait to be stored together
learner.py               makes learning phases of updates
fused_calls.py           the calls that make several updates at once
update.py                one update: sample, objective, gradients, apply, averages, sync
objective.py             what a batch's values are regressed on
demonstrations.py        which rows of a batch are demonstrations (DQfD)
sequence_objective.py    the same of sequences, for a network that remembers (R2D2)
normalizer.py            observations by the mean and variance of what was shown
recurrent_state.py       the memory of the network that acts, of the running episodes
branching.py             what the branches of an action are regressed on
proximal.py              the pull of the weights towards the target's
rollout.py               what batches of a rollout are regressed on (PQN)
target_clock.py          the target's age, and when the target is copied
copy_rule.py             copies that follow the run: a growing period, a good fit, a distance
copy_ops.py              the operations that copy the online network, and shift a chain
copies.py                copies of the online network by hand and at the beginning
gradients.py             the next update, to be looked at: its gradients, its batch's observations
live_feeds.py            live values as two arrays that calls are fed
divergence.py            the error of learning that diverged
q_values.py              action values by the present, the target and earlier networks
fresh_weights.py         first weights, drawn again by other seeds
weight_resets.py         resets, perturbs and recycles weights
learned_state.py         what an agent has learned, as arrays
state.py                 weights, digest, snapshots; saves and restores an agent
in_graph_loop.py         many time steps in one call, for envs in the graph
in_graph_envs.py         the envs of that loop
chunks.py                what such a call is fed and gives
chunk_runner.py          makes such calls
memory_estimate.py       how much memory an agent needs

Imports: agents.config, envs.in_graph, envs.stacks, rl_core.
"""
