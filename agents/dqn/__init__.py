"""The DQN agent: one graph in which acting, storing, learning and syncing happen.

agent.py           DqnAgent: builds the graph and owns the calls into it
networks.py        online, target and averaged networks, each under its scope
update.py          one update: sample, objective, gradients, apply, averages, sync
objective.py       what a batch's values are regressed on, head by head
target_clock.py    the target's age, and when it is copied
actor.py           observations into the replay, actions out
step_buffer.py     rows that wait until some are stored at once
exploring.py       epsilon-greedy outside the graph
live_feeds.py      live values as what is fed
state.py           what an agent is made of: read, restored, rewound
in_graph_loop.py   many time steps in one call, for envs in the graph
own_network.py     a network function of the user's own
diverging.py       the error of learning that diverged
memory.py          the replay memory that the config says
needs.py           how much memory an agent needs

Imports: agents.config, envs.in_graph, rl_core.
"""
