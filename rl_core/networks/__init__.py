"""Q-networks: a torso that makes features and a head that makes action values.

A torso or a head is a function of one tensor that builds layers by `get_variable`; a network
puts each under its own scope, which makes it a block that can be frozen. More torsos and
heads come as more functions of the same form.

Imports: rl_core.networks.torsos, rl_core.networks.heads. Never agents, never envs.
"""

from rl_core.networks.heads import dueling_head, q_head
from rl_core.networks.network import Network, q_network
from rl_core.networks.torsos import mlp_torso

__all__ = ["Network", "dueling_head", "mlp_torso", "q_head", "q_network"]
