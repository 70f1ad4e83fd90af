"""One line about a mistake on the command line, made of tyro's message."""

from __future__ import annotations

import re

from targetnet.agents.config.synonyms import near_key
from targetnet.rl_core.errors import in_one_line

_MOST = 400  # characters; tyro may quote the whole command line
# Where a complaint ends, and a help text of what it is about begins.
_HELP_TEXT = re.compile(r" \(required\)| Arguments are applied| Argument helptext")
_NO_NUMBER = re.compile(r"parsing (--[\w-]+): .*\b(int|float)\b.*: ('.*')")
_FLAG = r"--[a-z][a-z_-]*"
_WITH_SET = ("targetnet train", "targetnet resume", "targetnet sweep")


def mistake_in(box: str, command: str) -> str:
    """Returns the complaint in tyro's box, with the nearest flag and without help texts.

    Args:
      box: tyro's message, of several lines with a frame around them.
      command: that was given, such as "targetnet train".
    """
    lines = [line.strip("╭╮╰╯│─+| ") for line in box.splitlines()[1:]]
    words = " ".join(line for line in lines if line.strip("-")).split(" For full helptext")[0]
    complaint, _, near = words.partition(" Perhaps you meant:")
    complaint = _HELP_TEXT.split(complaint)[0]
    said = in_one_line(_in_plain_words(complaint), _MOST)
    hint = _as_key(complaint, command) or _nearest_flag(complaint, near, command)
    return f"{said}{hint} (see {command} --help)"


def _in_plain_words(complaint: str) -> str:
    if no_number := _NO_NUMBER.search(complaint):
        flag, kind, got = no_number.groups()
        return f"{flag} must be a {'whole ' if kind == 'int' else ''}number, got {got}"
    return re.sub(r" \(applied to targetnet [\w-]+\)| or misplaced", "", complaint)


def _as_key(complaint: str, command: str) -> str:
    """Returns a hint at the key of a config that a flag is named after, here or elsewhere."""
    if not complaint.startswith("Unrecognized") or command not in _WITH_SET:
        return ""
    from targetnet.agents.config.model import DqnConfig

    for flag in re.findall(_FLAG, complaint):
        key = flag.removeprefix("--").replace("-", "_")
        if key in DqnConfig.model_fields:
            return f"; {key} is a key of the config: --set {key}=..."
        if told := near_key(flag, ()):
            return f"{told}: --set KEY=VALUE"
    return ""


def _nearest_flag(complaint: str, near: str, command: str) -> str:
    """Returns a hint at a flag that tyro names: this command's own, or else another's."""
    found = re.findall(rf"({_FLAG})\b.*? in (targetnet [\w-]+) --help", near)
    wrong = set(re.findall(_FLAG, complaint))
    if there := [other for flag, other in found if flag in wrong]:
        return f"; {there[0]} has it"
    if not found:
        return ""
    flag, other = min(found, key=lambda one: one[1] != command)
    return f"; did you mean {flag}{'' if other == command else f' of {other}'}?"
