"""Parts of pages in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from targetnet.agents.results.statistics import Estimate

Format = Callable[[float], str]


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
