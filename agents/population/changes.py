"""The change that a resume makes in all members: kept in a file until each of them has it.

    change.json

The file is written before anything else changes. It is removed once every member has its config
and its commands. If a kill comes in between, the next resume makes this change first, so either all
members have it or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from targetnet.agents.config.files import MAY_CHANGE, changed_config
from targetnet.agents.config.members import Members
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.population.directory import PopulationDir
from targetnet.agents.run.resume import ResumePlan
from targetnet.agents.saved.directory import write_file
from targetnet.rl_core.control.commands import SetCommand
from targetnet.rl_core.control.exchanges import Member
from targetnet.rl_core.control.population import CHANGE
from targetnet.rl_core.errors import RunDirError, in_one_line, reason_of
from targetnet.rl_core.regular_file import read_regular, sync_directory, writing
from targetnet.rl_core.seal import sealed_json, unsealed_json
from targetnet.rl_core.validation import first_error

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
                    before=_keys(going.before), after=_keys(going.config), commands=going.commands
                )
                for name, going in found.items()
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
        for going in found.values():
            going.cut_files()
            going.submit()
            _sync(going.directory.path)
            _sync(going.directory.control.inbox)
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
