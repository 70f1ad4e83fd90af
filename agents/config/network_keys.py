"""Keys of the network."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from targetnet.agents.config.settings import LiveFloat, Settings, key, known_or_own, live

Size = Annotated[int, Field(ge=1)]
# Default `hidden` of each network in targetnet.rl_core.networks, from its paper.
HIDDEN = {"mlp": (256, 256), "minatar": (128,), "nature": (512,), "impala": (256,)}
NETWORKS = tuple(HIDDEN)
FRAMES = ("nature", "impala")  # of whole frames: their convolutions are most of an update


class NetworkKeys(Settings):
    """The network: a torso and a head.

    The blocks that can be frozen are `torso` and `head`; a dueling head has the blocks `value` and
    `advantage` instead of `head`. A recurrent layer, the embedding of an implicit or FQF head, the
    fractions of an FQF head and each further network of a chain are blocks too.
    """

    network: str = key(
        "mlp",
        'mlp, minatar, nature, impala, or your own as "module:function"',
        papers=("Mnih et al. 2015", "Young & Tian 2019", "Espeholt et al. 2018"),
        values="text",
    )
    part_networks: dict[str, Literal["mlp", "minatar", "nature", "impala"]] = key(
        {},
        "for observations of several parts: the part's name and its network, where this is not "
        "`network`; mlp flattens a picture",
        values="table",
    )
    hidden: tuple[Size, ...] = key(
        (256, 256),
        "units of each dense layer of the torso; by default 128 with minatar, 512 with nature, "
        "256 with impala",
        "units",
        strict=False,
        values="list of whole numbers >= 1",
    )
    layer_norm: bool = key(
        False,
        "layer normalization in the torso",
        papers=("Ba et al. 2016",),
    )
    activation: Literal["relu", "tanh", "elu", "gelu", "silu"] = key(
        "relu",
        "activation after each layer of a torso of ours and each hidden layer of the head; gelu is "
        "the exact one, with erf",
        papers=("Clevert et al. 2016", "Hendrycks & Gimpel 2016", "Elfwing et al. 2018"),
    )
    compute: Literal["float32", "bfloat16"] = key(
        "float32",
        "what is computed in from the first to the last convolution of nature and impala; bfloat16 "
        "needs onednn, and is faster on a processor with AVX512_BF16 or AMX",
    )
    byte_scale: Literal["bounds", "255"] = key(
        "bounds",
        "scales uint8 observations to [0, 1]: by the bounds of their Box, or by dividing by 255",
    )
    normalize_observations: bool = key(
        False,
        "normalizes observations with the running mean and standard deviation of all that the "
        "envs have shown",
    )
    dueling: bool = key(
        False,
        "dueling head: a stream for the state's value and one for the advantages",
        papers=("Wang et al. 2016",),
    )
    head_hidden: tuple[Size, ...] = key(
        (),
        "units of each hidden layer of the head; a dueling head has such layers in both streams",
        "units",
        strict=False,
        values="list of whole numbers >= 1",
    )
    noisy: bool = key(
        False,
        "noisy layers in the head",
        papers=("Fortunato et al. 2018",),
    )
    head: Literal["scalar", "categorical", "quantile", "implicit", "fqf"] = key(
        "scalar",
        "scalar: the expected return; categorical: C51, or HL-Gauss by `loss`; quantile: QR-DQN; "
        "implicit: IQN; fqf: FQF",
        papers=(
            "Bellemare et al. 2017",
            "Dabney et al. 2018",
            "Dabney et al. 2018b",
            "Yang et al. 2019",
        ),
    )
    atoms: int = key(
        51,
        "atoms of a categorical head",
        "atoms",
        ge=2,
        papers=("Bellemare et al. 2017",),
    )
    v_min: float = key(
        -10.0,
        "return at the first atom; with HL-Gauss the lower edge of its bin",
        "reward",
        papers=("Bellemare et al. 2017",),
    )
    v_max: float = key(
        10.0,
        "return at the last atom; with HL-Gauss the upper edge of its bin",
        "reward",
        papers=("Bellemare et al. 2017",),
    )
    quantiles: int = key(
        200,
        "quantiles of a quantile head",
        "quantiles",
        ge=1,
        papers=("Dabney et al. 2018",),
    )
    tau_samples: int = key(
        64,
        "fractions that an implicit head draws in an update",
        "fractions",
        ge=1,
        papers=("Dabney et al. 2018b",),
    )
    tau_samples_acting: int = key(
        32,
        "fractions on which an implicit head acts",
        "fractions",
        ge=1,
        papers=("Dabney et al. 2018b",),
    )

    fractions: int = key(
        32,
        "fractions that an FQF head proposes for each observation",
        "fractions",
        ge=2,
        papers=("Yang et al. 2019",),
    )
    fraction_learning_rate: LiveFloat = live(
        1e-4,
        ge=0,
        unit="1",
        meaning="the optimizer's step size of the block `fractions`",
        papers=("Yang et al. 2019",),
        needs=lambda config: config.head == "fqf" or 'head = "fqf"',
    )
    fraction_entropy: LiveFloat = live(
        0.001,
        ge=0,
        unit="reward",
        meaning="weight of the entropy of the proposed fractions; more keeps them more even",
        papers=("Yang et al. 2019",),
        needs=lambda config: config.head == "fqf" or 'head = "fqf"',
    )

    @field_validator("network")
    @classmethod
    def _check_network(cls, name: str) -> str:
        return known_or_own("network", name, NETWORKS)


class RecurrentKeys(Settings):
    """A memory: a recurrent layer between torso and head, learned from sequences (R2D2)."""

    recurrent: Literal["none", "gru", "lstm"] = key(
        "none",
        "recurrent layer between torso and head, so that the agent remembers",
        papers=("Kapturowski et al. 2019",),
    )
    recurrent_units: int = key(128, "units of the recurrent layer", "units", ge=1)
    sequence_length: int = key(
        80,
        "time steps of a sequence that are learned from",
        "time steps",
        ge=1,
        papers=("Kapturowski et al. 2019",),
    )
    burn_in: int = key(
        40,
        "time steps before a sequence that only update the recurrent state",
        "time steps",
        ge=0,
        papers=("Kapturowski et al. 2019",),
    )
    priority_eta: LiveFloat = live(
        0.9,
        ge=0,
        le=1,
        unit="1",
        meaning="sequence priority = eta * largest + (1 - eta) * mean absolute TD error",
        papers=("Kapturowski et al. 2019",),
        needs=lambda config: (
            config.prioritized or "prioritized = true"
            if config.is_recurrent
            else 'recurrent = "gru" or "lstm"'
        ),
    )
