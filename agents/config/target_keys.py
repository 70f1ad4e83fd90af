"""Keys of the regression target that is computed with the target network."""

from __future__ import annotations

from pydantic import field_validator

from targetnet.agents.config.settings import LiveFloat, Settings, key, live
from targetnet.rl_core.errors import did_you_mean, quoted


class TargetKeys(Settings):
    """The regression target that is computed with the target network."""

    value_rescaling: bool = key(
        False,
        "the network learns sign(x) (sqrt(abs(x) + 1) - 1) + 0.001 x of each return x, so that "
        "large ones are small",
        papers=("Pohlen et al. 2018",),
    )
    discount: LiveFloat = live(
        0.99,
        ge=0,
        le=1,
        unit="1",
        meaning="factor of the next state's value in the target",
        papers=("Watkins & Dayan 1992",),
    )
    online_weight: LiveFloat = live(
        0.0,
        ge=0,
        le=1,
        unit="1",
        meaning="share of the online network in the values that bootstrap; 1 is without a target",
        papers=("Piché et al. 2021",),
        switch="value",
    )
    min_weight: LiveFloat = live(
        0.0,
        ge=0,
        le=1,
        unit="1",
        meaning="share of min(target, online), taken for each action, in the values that "
        "bootstrap; 1 is MINTO",
        papers=("Hendawy et al. 2025",),
        switch="value",
    )
    functional_weight: LiveFloat = live(
        0.0,
        ge=0,
        unit="1",
        meaning="weight of the squared distance of a batch's values from the target network's",
        papers=("Piché et al. 2021",),
        switch="value",
    )
    proximal_weight: LiveFloat = live(
        0.0,
        ge=0,
        unit="1",
        meaning="pull of the weights towards the target's in each update, times the learning rate",
        papers=("Asadi et al. 2021",),
        switch="value",
    )
    prepared: tuple[str, ...] = key(
        (),
        "weights and sync rules that are 0 at first and may be set during the run; each costs "
        "what it needs from the start",
        strict=False,
        values="list of {switches}",
        of_replay=True,
    )
    munchausen: bool = key(
        False,
        "Munchausen DQN: the scaled log policy is added to the reward",
        papers=("Vieillard et al. 2020",),
        of_replay=True,
    )
    munchausen_alpha: LiveFloat = live(
        0.9,
        ge=0,
        le=1,
        unit="1",
        meaning="factor of the log policy that is added to the reward",
        papers=("Vieillard et al. 2020",),
        needs=lambda config: config.munchausen or "munchausen = true",
    )
    munchausen_temperature: LiveFloat = live(
        0.03,
        gt=0,
        unit="reward",
        meaning="temperature of the target's softmax policy",
        papers=("Vieillard et al. 2020",),
        needs=lambda config: config.munchausen or "munchausen = true",
    )
    munchausen_clip: LiveFloat = live(
        -1.0,
        lt=0,
        unit="reward",
        meaning="lower bound of the log policy times its temperature",
        papers=("Vieillard et al. 2020",),
        needs=lambda config: config.munchausen or "munchausen = true",
    )

    @field_validator("prepared")
    @classmethod
    def _check_prepared(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in (known := cls.switches()):
                raise ValueError(
                    f"{quoted(name)} is no value that can be prepared ({', '.join(known)})"
                    f"{did_you_mean(name, known)}"
                )
        return tuple(dict.fromkeys(names))

    def is_built_with(self, name: str) -> bool:
        """Returns True if updates are built with this live value, one of `switches()`."""
        return name in self.prepared or getattr(self, name) != 0

    @property
    def syncs_early(self) -> bool:
        """Returns True if the target may be synced before its period is over."""
        return self.is_built_with("sync_fit") or self.is_built_with("sync_distance")
