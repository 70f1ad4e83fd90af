"""One line on the console, whatever text is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from targetnet.rl_core.errors import escaped

if TYPE_CHECKING:
    from rich.console import Console


def say(console: Console, text: str, style: str = "") -> None:
    """Shows one line; what cannot be printed by its escape."""
    console.print(escaped(text), highlight=False, soft_wrap=True, markup=False, style=style)
