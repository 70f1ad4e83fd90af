"""Parts that the pages of `results`, `compare` and `sweep` have in common."""

from __future__ import annotations

import dataclasses
import json
import platform
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from targetnet.agents.experiments.statistics import Estimate
from targetnet.rl_core.extras import require_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Format = Callable[[float], str]
COLORS = ("#d9541a", "#1f6fb4", "#3a923a", "#8c5fb3", "#b08c1a")  # one per line, in turn
GRAY = "#555555"


def require_matplotlib() -> None:
    """Checks that matplotlib is installed.

    Raises:
      RlCoreError: it is not; the message says how to install it.
    """
    require_package("matplotlib", "the curves need matplotlib", "plots")


# Markdown.


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table whose first column is aligned to the left and all others to the right."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def folded(summary: str, text: str) -> str:
    """Returns a text that is folded up below its summary, which is HTML."""
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def estimate_cells(estimate: Estimate | None, number: Format) -> list[str]:
    """Returns two cells of a table: the value, and its interval."""
    if estimate is None:
        return ["-", "-"]
    ends = estimate.interval
    between = f"[{number(ends.low)}, {number(ends.high)}]" if ends else "-"
    return [number(estimate.value), between]


def number_format(largest: float) -> Format:
    """Returns a table's number format: one decimal if its largest value reaches 100, else two."""
    decimals = 1 if largest >= 100 else 2
    return lambda value: f"{value:,.{decimals}f}"


def in_toml(value: Any) -> str:
    """Returns a value as TOML on one line, which tomli_w would break."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {in_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(in_toml, value)) + "]"
    return json.dumps(value)


# What made a page.


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that decide a result of ours."""
    names = ("targetnet", "tensorflow", "gymnasium", "numpy")
    return {"python": platform.python_version()} | {name: version(name) for name in names}


def in_words(versions: Mapping[str, str]) -> str:
    """Returns versions on one line."""
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def command_line(
    words: Sequence[str], options: Any, without: Collection[str], always: Collection[str] = ()
) -> str:
    """Returns the command line that makes a page again, for the page itself.

    Args:
      words: how it begins.
      options: a dataclass of options; those with their defaults are left out, and so is an
        absolute path, which concerns only this machine.
      without: names of fields that are left out in any case.
      always: names of fields that are there in any case.
    """
    line = [*words]
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name in without or (value == field.default and field.name not in always):
            continue
        if isinstance(value, Path) and value.is_absolute():
            continue
        option = f"--{field.name.replace('_', '-')}"
        if isinstance(value, bool):
            line.append(option if value else option.replace("--", "--no-", 1))
        else:
            line += [option, str(value)]
    return shlex.join(line)


# Pictures: equal results give equal bytes.


def save_figure(figure: Figure, png: Path, dpi: int) -> tuple[Path, Path]:
    """Saves a figure, and the same as an SVG beside it; returns both paths."""
    import matplotlib

    png.parent.mkdir(parents=True, exist_ok=True)
    svg = png.with_suffix(".svg")
    # Without the salt and the empty date an SVG has random ids and a time stamp.
    with matplotlib.rc_context({"svg.hashsalt": "targetnet"}):
        figure.savefig(png, dpi=dpi)
        figure.savefig(svg, metadata={"Date": None})
    return png, svg


def draw_band(
    axes: Axes, line: Sequence[tuple[float, Estimate]], color: str, alpha: float = 0.2, **style: Any
) -> None:
    """Draws estimates as a line, and their intervals as a band around it.

    A band has all intervals there are: an estimate of a single seed has none.
    """
    axes.plot([x for x, _ in line], [of.value for _, of in line], color=color, **style)
    ends = [(x, of.interval) for x, of in line]
    at = [x for x, interval in ends if interval]
    if at:
        lows, highs = zip(*(interval for _, interval in ends if interval), strict=True)
        axes.fill_between(at, lows, highs, color=color, alpha=alpha, linewidth=0)


def without_frame(axes: Axes) -> None:
    """Takes away what of an axes' frame shows nothing."""
    axes.spines[["top", "right"]].set_visible(False)
