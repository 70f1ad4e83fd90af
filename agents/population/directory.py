"""A population's directory: what its members are, and a run directory for each of them.

The change that a resume makes in all members is kept in `change.json` until each of them has it.
The file is written before anything else changes. It is removed once every member has its config
and its commands. If a kill comes in between, the next resume makes this change first, so either all
members have it or none.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from targetnet.agents.config.files import MAY_CHANGE, changed_config, require_can_go_on
from targetnet.agents.config.members import Members, members_text, read_members
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.pbt import PbtKeys
from targetnet.agents.run.agent_factory import INITIAL, load_initial, save_initial
from targetnet.agents.run.resume import ResumePlan
from targetnet.agents.saved.directory import (
    CONFIG,
    RUNS,
    RunDir,
    logdir_of,
    next_free,
    parents_to_make,
    remove_empty,
    require_free,
    write_file,
)
from targetnet.rl_core.control.commands import SetCommand
from targetnet.rl_core.control.population import (
    CHANGE,
    POPULATION,
    ExchangeRecord,
    Member,
    is_population,
)
from targetnet.rl_core.errors import ConfigError, RunDirError, in_one_line, reason_of
from targetnet.rl_core.files import (
    clear_unfinished,
    is_unfinished,
    read_regular,
    sync_directory,
    writing,
)
from targetnet.rl_core.seal import sealed_json, unsealed_json
from targetnet.rl_core.validation import first_error

# Member -> weights that it begins with.
Weights = Mapping[str, Mapping[str, np.ndarray]]


class PopulationDir:
    """One population's files.

    Attributes:
      path: the directory.
      logdir: the directory for TensorBoard, as of a `RunDir`.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.logdir = path, logdir_of(path)

    @classmethod
    def create(
        cls, path: Path | None, name: str, members: Members, weights: Weights
    ) -> PopulationDir:
        """Makes the directory, and those of all members; all or nothing.

        Args:
          path: where; None takes the next free number of `runs/<name>-<number>`.
          weights: that members begin with, where they are not random.

        Raises:
          RunDirError: a run or a population is there already, or it cannot be written.
        """
        if path is not None:
            require_free_for(path, members)
        with contextlib.ExitStack() as undo:
            with writing(f"a run into {path or RUNS}"):
                population = cls(path or next_free(name))
                if path is not None:
                    undo.callback(remove_empty, parents_to_make(path))
                undo.callback(_remove_new, population.path, path is None or not path.exists())
                population.path.mkdir(parents=True, exist_ok=True)
            for member in members.configs:
                place = population.path / member
                undo.callback(_remove_new, place, not place.exists())
                _make_first(RunDir(place), weights.get(member, {}))
            # With it there is a population: from here on a resume can make what a kill left out.
            write_file(population.path / POPULATION, members_text(members).encode())
            undo.callback((population.path / POPULATION).unlink, missing_ok=True)
            for member, config in members.configs.items():
                RunDir.create(population.path / member, member, config)
            undo.pop_all()
        return population

    @classmethod
    def open(cls, path: Path) -> PopulationDir:
        """Opens an existing population.

        Raises:
          RunDirError: there is none.
        """
        if not is_population(path):
            raise RunDirError(f"{path} is not a population: it has no {POPULATION}")
        return cls(path)

    def members(self) -> Members:
        """Reads what the members are.

        Raises:
          ConfigError: the file is damaged.
        """
        return read_members(self.path / POPULATION)

    def change_members(self, members: Members) -> None:
        """Writes what the members are from now on."""
        write_file(self.path / POPULATION, members_text(members).encode())

    def clear_leftovers(self) -> None:
        """Removes unfinished files that a killed process has left beside the members."""
        clear_unfinished(self.path)

    def require_same(self, members: Members) -> None:
        """Checks that these members may go on here.

        Raises:
          ConfigError: they are others, or one has a change that a run cannot take.
        """
        of_before = self.members()
        before = of_before.configs
        if members.pbt != of_before.pbt:
            raise ConfigError(
                f"{self.path} has {_described(of_before.pbt)}, and the config has "
                f"{_described(members.pbt)}; it cannot change on resume"
            )
        if before.keys() != members.configs.keys():
            raise ConfigError(
                f"{self.path} has {len(before)} members, and the config has {len(members.configs)}"
            )
        for name, config in members.configs.items():
            require_can_go_on(before[name], config)

    def is_finished(self, members: Members) -> bool:
        """Says whether all members have come to the end that these configs name.

        Raises:
          ConfigError: as for `require_same`.
        """
        self.require_same(members)
        return all(self._has_ended(name, config) for name, config in members.configs.items())

    def _has_ended(self, name: str, config: DqnConfig) -> bool:
        run = RunDir(self.path / name)
        return run.has_result() and config.env_steps <= run.config().env_steps

    def member(self, name: str, members: Members) -> RunDir:
        """Returns the run directory of a member, and makes it if a kill came before.

        Raises:
          RunDirError: it is damaged, or of another member.
        """
        path = self.path / name
        if not _is_there(path / CONFIG):
            if path.is_symlink() or (path.exists() and not _is_only_begun(path)):
                raise RunDirError(
                    f"{path} is damaged: it has no {CONFIG}; remove the directory to begin that "
                    "member again"
                )
            had = any(load_initial(RunDir(self.path / other)) for other in members.configs)
            if had and not load_initial(RunDir(path)):
                raise RunDirError(f"{path} was not made, and the weights it began with are lost")
            return RunDir.create(path, name, members.configs[name])
        return self.made(name, members)

    def made(self, name: str, members: Members) -> RunDir:
        """Returns the run directory of a member.

        Raises:
          RunDirError: there is none, or it is damaged, or of another member.
        """
        path = self.path / name
        run = RunDir.open(path)
        try:
            require_can_go_on(members.configs[name], run.config())
        except ConfigError as error:
            raise RunDirError(f"{path} is not the member that it was: {error}") from None
        return run


def require_free_for(path: Path, members: Members) -> None:
    """Checks that a population can be put at `path`; writes nothing.

    Raises:
      RunDirError: it cannot; says why.
    """
    require_free(path)
    if ExchangeRecord(path).all:
        raise RunDirError(f"{path} already holds exchanges of a population; name another directory")
    for member in members.configs:
        require_free(path / member)


def _make_first(run: RunDir, weights: Mapping[str, np.ndarray]) -> None:
    """Makes the directory of a member, with the weights that it begins with."""
    with writing(f"a run into {run.path}"):
        run.path.mkdir(parents=True, exist_ok=True)
    save_initial(run, weights)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # before Python 3.14, of a directory that may not be read
        raise RunDirError(f"cannot read {path}: {error.strerror}") from None


def _is_only_begun(path: Path) -> bool:
    """Says whether a directory has nothing but what comes before a run's config."""
    if not path.is_dir():
        return False
    return all(of.name == INITIAL or is_unfinished(of.name) for of in path.iterdir())


def _remove_new(path: Path, is_new: bool) -> None:
    if is_new:
        shutil.rmtree(path, ignore_errors=True)


def _described(pbt: PbtKeys | None) -> str:
    """Returns settings of population-based training in a few words."""
    return "no [pbt]" if pbt is None else f"[pbt] {pbt}"


_MOST_BYTES = 1 << 24  # a member takes about 600, and 200 for each live value


def _that_may_change(keys: dict[str, Any]) -> dict[str, Any]:
    for name in keys:
        if name not in MAY_CHANGE:
            raise ValueError(f"{in_one_line(name, 100)} cannot change on resume")
    return keys


Keys = Annotated[dict[str, Any], AfterValidator(_that_may_change)]


class _MemberPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class MemberChange(_MemberPart):
    """The change of one member.

    Attributes:
      before, after: the keys of its config that a resume may change.
      commands: that set live values.
    """

    before: Keys
    after: Keys
    commands: list[SetCommand]


class PopulationChange(_MemberPart):
    """The change of a population.

    Attributes:
      keys: those of all members' config, afterwards.
      members: name -> change, of the members that go on.
    """

    keys: Keys = {}
    members: dict[Member, MemberChange] = {}

    @classmethod
    def to(cls, members: Members, found: Mapping[str, ResumePlan]) -> PopulationChange:
        """Returns the change after which the population has `members`, and these go on."""
        return cls(
            keys=_keys(members.base),
            members={
                name: MemberChange(
                    before=_keys(plan.before), after=_keys(plan.config), commands=plan.commands
                )
                for name, plan in found.items()
            },
        )

    @classmethod
    def left_in(cls, directory: PopulationDir) -> PopulationChange:
        """Reads the change that a killed process has begun; an empty one if there is none.

        Raises:
          RunDirError: the file is damaged.
        """
        path = directory.path / CHANGE
        try:
            return cls.model_validate(unsealed_json(read_regular(path, most=_MOST_BYTES)))
        except FileNotFoundError:
            return cls()
        except ValidationError as error:
            raise RunDirError(f"{path} is damaged: {first_error(error)}") from None
        except (OSError, ValueError) as error:
            raise RunDirError(f"cannot use {path}: {reason_of(error)}") from None

    def config_of(self, name: str, now: DqnConfig) -> DqnConfig:
        """Returns a member's config with its change.

        A member that has gone on alone since, with another change, keeps what it has.
        """
        of = self.members.get(name)
        if of is None or _keys(now) != of.before:
            return now
        return changed_config(now, of.after)[0]

    def commands_of(self, name: str) -> Sequence[SetCommand]:
        """Returns a member's commands. It takes each of them once, however often it is sent."""
        return self.members[name].commands if name in self.members else ()

    def make(
        self, directory: PopulationDir, members: Members, found: Mapping[str, ResumePlan]
    ) -> None:
        """Brings the members' files to where they go on, with this change.

        Raises:
          RunDirError: a file cannot be written.
        """
        directory.clear_leftovers()
        path = directory.path / CHANGE
        write_file(path, sealed_json(self.model_dump()))
        _sync(directory.path)
        directory.change_members(members)
        for plan in found.values():
            plan.cut_files()
            plan.submit()
            _sync(plan.directory.path)
            _sync(plan.directory.control.inbox)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise RunDirError(f"cannot remove {path}: {error.strerror}") from None


def _keys(config: DqnConfig) -> dict[str, Any]:
    return config.model_dump(mode="json", include={*MAY_CHANGE})


def _sync(path: Path) -> None:
    """Has a power cut not lose the names in a directory.

    Raises:
      RunDirError: it cannot be done.
    """
    with writing(path):
        sync_directory(path)
