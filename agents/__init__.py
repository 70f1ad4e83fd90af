"""Agents: DQN, its configuration, the loop that trains it, and the command line."""
