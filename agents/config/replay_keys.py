"""Keys of what is learned from: a replay, rollouts, datasets."""

from __future__ import annotations

from targetnet.agents.config.settings import LiveFloat, LiveInt, Settings, key, live


class ReplayKeys(Settings):
    """The replay memory and how batches are sampled from it."""

    replay_capacity: int = key(
        100_000,
        "rows of the replay, one per env and time step",
        "rows",
        ge=3,
        papers=("Mnih et al. 2015",),
        of_replay=True,
    )
    batch_size: int = key(
        64,
        "transitions per update; with `recurrent`, sequences",
        "transitions",
        ge=1,
        papers=("Mnih et al. 2015",),
    )
    n_step: LiveInt = live(
        1,
        ge=1,
        unit="env steps",
        meaning="rewards added up before the next state's value",
        papers=("Hessel et al. 2018",),
        of_replay=True,
        needs=lambda config: (
            "rollout = 0" if config.rollout else not config.munchausen or "munchausen = false"
        ),
    )
    prioritized: bool = key(
        False,
        "prioritized replay",
        papers=("Schaul et al. 2016",),
        of_replay=True,
    )
    priority_alpha: LiveFloat = live(
        0.6,
        ge=0,
        le=1,
        unit="1",
        meaning="exponent of the priorities in sampling; 0 is uniform",
        effect="next update; it recomputes all priorities",
        papers=("Schaul et al. 2016",),
        needs=lambda config: config.prioritized or "prioritized = true",
    )
    priority_beta: LiveFloat = live(
        0.4,
        ge=0,
        le=1,
        unit="1",
        meaning="share of the sampling bias that importance weights remove",
        papers=("Schaul et al. 2016",),
        needs=lambda config: config.prioritized or "prioritized = true",
    )


class RolloutKeys(Settings):
    """Rollouts instead of a replay and a target network: PQN.

    After each rollout of all envs the network gives its steps their returns, and updates are made
    of batches of that rollout alone.
    """

    rollout: int = key(
        0,
        "length of a rollout; 0: there is a replay and a target network",
        "time steps",
        ge=0,
        papers=("Gallici et al. 2024",),
    )
    epochs: int = key(
        1,
        "passes over a rollout, in batches of `batch_size`",
        "passes",
        ge=1,
        papers=("Gallici et al. 2024",),
    )
    q_lambda: LiveFloat = live(
        0.65,
        ge=0,
        le=1,
        unit="1",
        meaning="lambda of the Q(lambda) returns of a rollout; 0 is one step, 1 all steps",
        effect="next rollout's updates",
        papers=("Gallici et al. 2024", "Peng & Williams 1996"),
        needs=lambda config: config.rollout > 0 or "rollout > 0",
    )


class DataKeys(Settings):
    """Learning from a Minari dataset, before the first env step or alone: docs/guides/data.md."""

    offline: str = key(
        "",
        "path or id of a dataset that is learned from; empty: a run learns from its own envs",
        values="text",
    )
    begin_with: str = key(
        "",
        "path or id of a dataset of demonstrations, whose steps are the first rows of the replay; "
        "the run then steps its envs",
        papers=("Hester et al. 2018",),
        values="text",
    )
    dataset_digest: str = key(
        "",
        "hash of the dataset's steps; a run keeps it, and no other dataset will do",
        values="text",
    )
    demonstration_steps: int = key(
        0,
        "time steps of the replay that the demonstrations of begin_with take; a run fills it in",
        "time steps",
        ge=0,
    )
    cql_weight: LiveFloat = live(
        0.0,
        ge=0,
        unit="1",
        meaning="weight of conservative Q-learning's penalty: how far the log of the sum of exp of "
        "all actions' values is above the value of the action taken",
        papers=("Kumar et al. 2020",),
        switch="penalty",
    )
    margin_weight: LiveFloat = live(
        0.0,
        ge=0,
        unit="1",
        meaning="weight of the large-margin loss on demonstrations: how far any other action's "
        "value plus the margin is above the value of the action taken",
        papers=("Hester et al. 2018",),
        switch="penalty",
    )
    margin: LiveFloat = live(
        0.8,
        ge=0,
        unit="reward",
        meaning="distance that the large-margin loss wants between the value of a demonstrated "
        "action and all others",
        papers=("Hester et al. 2018",),
        needs=lambda config: (
            config.is_built_with("margin_weight")
            or 'margin_weight > 0, or prepared = ["margin_weight"]'
        ),
    )
    demonstration_bonus: LiveFloat = live(
        0.0,
        ge=0,
        unit="reward",
        meaning="added to the absolute TD error of demonstrations in their priority",
        papers=("Hester et al. 2018",),
        needs=lambda config: (
            config.prioritized or "prioritized = true"
            if config.begin_with
            else "begin_with, and prioritized = true"
        ),
    )
