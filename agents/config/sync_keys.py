"""Keys of the target network: what it is a copy of, and when it is synced."""

from __future__ import annotations

from typing import Literal

from targetnet.agents.config.settings import LiveFloat, LiveInt, Settings, key, live


class SyncKeys(Settings):
    """The target network: what it is a copy of, and when it is synced.

    A period is counted in updates, not in env steps. A live change of `sync_period` leaves `tau` as
    it is.
    """

    double: bool = key(
        False,
        "Double DQN: the online network chooses the action that the target network values",
        papers=("van Hasselt et al. 2016",),
        of_replay=True,
    )
    averaged_targets: int = key(
        1,
        "target copies whose values are averaged; 1 turns averaging off",
        "copies",
        ge=1,
        papers=("Anschel et al. 2017",),
        of_replay=True,
    )
    chain: int = key(
        1,
        "online networks in a chain: each learns from a copy of the one before, the first from "
        "the target; each sync moves all one place on",
        "networks",
        ge=1,
        le=100,
        papers=("Vincent et al. 2024", "Vincent et al. 2025"),
        of_replay=True,
    )
    chain_torso: Literal["own", "shared"] = key(
        "own",
        "own: each network of a chain has a torso, and the target's is a copy; shared: all heads, "
        "the target's too, stand on the online torso as it is",
        papers=("Vincent et al. 2025",),
        of_replay=True,
    )
    sync_period: LiveInt = live(
        10,
        ge=1,
        unit="updates",
        meaning="updates between two syncs of the target network",
        effect="next update; if the target is already this old, that update syncs it",
        papers=("Mnih et al. 2015",),
        of_replay=True,
        needs=lambda config: config.rollout == 0 or "rollout = 0",
    )
    tau: LiveFloat = live(
        0.1,
        gt=0,
        le=1,
        unit="1",
        meaning="share by which a sync moves the target; 1 is a full copy, and the default of a "
        "config that sets `sync_period`",
        effect="next sync",
        papers=("Lillicrap et al. 2016",),
        of_replay=True,
        needs=lambda config: (
            "chain = 1" if config.chain > 1 else config.rollout == 0 or "rollout = 0"
        ),
    )
    refresh_period: LiveInt = live(
        1,
        ge=1,
        unit="updates",
        meaning="updates from a sync or refresh to the next refresh, in which each network of a "
        "chain is copied for the next one to learn from",
        effect="next update",
        papers=("Vincent et al. 2024",),
        of_replay=True,
        needs=lambda config: config.chain > 1 or "chain > 1",
    )
    sync_growth: LiveFloat = live(
        0.0,
        ge=0,
        unit="1",
        meaning="share by which the period grows at each sync that an update makes, from "
        "sync_period on; a new sync_period begins again",
        effect="next sync",
        papers=("Weissmann et al. 2026",),
        switch="sync",
    )
    sync_fit: LiveFloat = live(
        0.0,
        ge=0,
        le=1,
        unit="1",
        meaning="syncs early once the mean squared TD error is below this share of what it was "
        "after the last sync; 0 is never",
        effect="next update",
        switch="sync",
    )
    sync_fit_updates: int = key(
        100,
        "updates over which sync_fit takes its means",
        "updates",
        ge=1,
        le=1_000_000,
        of_replay=True,
    )
    sync_distance: LiveFloat = live(
        0.0,
        ge=0,
        unit="1",
        meaning="syncs early once the norm of online - target is this share of the target's; 0 is "
        "never",
        effect="next update",
        switch="sync",
    )
    min_target_age: LiveInt = live(
        1,
        ge=1,
        unit="updates",
        meaning="smallest age at which sync_fit or sync_distance syncs the target",
        effect="next update",
        of_replay=True,
        needs=lambda config: config.syncs_early or "sync_fit > 0 or sync_distance > 0",
    )
    max_target_age: LiveInt = live(
        0,
        ge=0,
        unit="updates",
        meaning="age at which the target is synced at the latest, however long its period has "
        "grown; 0 is no limit",
        effect="next update",
        of_replay=True,
        needs=lambda config: (
            config.syncs_early
            or config.is_built_with("sync_growth")
            or "sync_growth, sync_fit or sync_distance > 0"
        ),
    )
    on_sync: tuple[Literal["reset_moments", "reset_time"], ...] = key(
        (),
        "done to the optimizer at each sync: reset_moments makes it new, reset_time only Adam's "
        "step counter",
        strict=False,
        papers=("Asadi et al. 2023", "Ellis et al. 2024"),
        values='list of `"reset_moments"`, `"reset_time"`',
        of_replay=True,
    )
