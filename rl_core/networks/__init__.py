"""Q-networks: a torso that computes features and a head that computes action values.

A torso or a head is a function of one tensor that builds layers by `get_variable`. A network
puts each under its own scope, so each is a block that can be frozen. A new torso or head is a
new function of the same form.

network.py      what a network is given and gives, and one of a torso and a head
activations.py  what follows a layer
torsos.py       from observations to features
recurrent.py    from features and a state to features that remember
heads.py        from features to what is known of each action's return
hidden.py       the hidden units of a network that was built

Imports: rl_core.branches, rl_core.errors, rl_core.graph, rl_core.losses, rl_core.observation_parts,
rl_core.random.
"""

from targetnet.rl_core.networks.activations import ACTIVATIONS
from targetnet.rl_core.networks.heads import (
    COSINES,
    Streams,
    categorical_head,
    fqf_head,
    implicit_head,
    q_head,
    quantile_head,
)
from targetnet.rl_core.networks.network import (
    ONE_ARRAY,
    PLAIN,
    STATELESS,
    ByteBounds,
    Conditions,
    Network,
    ObservationForm,
    State,
    Values,
    as_float,
    q_network,
    scaled_bytes,
    unpacked,
)
from targetnet.rl_core.networks.recurrent import RECURRENT, Recurrent
from targetnet.rl_core.networks.torsos import (
    IMPALA,
    MINATAR,
    NATURE,
    impala_torso,
    minatar_torso,
    mlp_torso,
    nature_torso,
)

__all__ = [
    "ACTIVATIONS",
    "COSINES",
    "IMPALA",
    "MINATAR",
    "NATURE",
    "ONE_ARRAY",
    "PLAIN",
    "RECURRENT",
    "STATELESS",
    "ByteBounds",
    "Conditions",
    "Network",
    "ObservationForm",
    "Recurrent",
    "State",
    "Streams",
    "Values",
    "as_float",
    "categorical_head",
    "fqf_head",
    "impala_torso",
    "implicit_head",
    "minatar_torso",
    "mlp_torso",
    "nature_torso",
    "q_head",
    "q_network",
    "quantile_head",
    "scaled_bytes",
    "unpacked",
]
