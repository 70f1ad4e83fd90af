"""The list of the shipped configs, by env, for a terminal of 80 columns."""

from __future__ import annotations

from rich.console import Group
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from targetnet.agents.config.files import load_config, shipped_configs


def config_list() -> Group:
    """Builds a table of configs for each env, below the env's id."""
    about = {name: text.splitlines()[0].lstrip("# ") for name, text in shipped_configs().items()}
    configs = {name: load_config(name) for name in about}
    width = max(map(len, configs))
    by_env: dict[str, Table] = {}
    for name, config in configs.items():
        if config.env_id not in by_env:
            by_env[config.env_id] = _table(width, show_header=not by_env)
        words = about[name].removeprefix(config.env_id).lstrip(": ")
        by_env[config.env_id].add_row(name, f"{config.env_steps:,}", words)
    parts = (
        (Text(env_id, style="bold"), Padding(t, (0, 0, 1, 2), expand=False))
        for env_id, t in by_env.items()
    )
    return Group(*(part for pair in parts for part in pair))


def _table(width: int, *, show_header: bool) -> Table:
    columns = (
        Column("config", no_wrap=True, min_width=width),
        Column("env steps", no_wrap=True, justify="right", min_width=9),
        Column("about"),
    )
    return Table(*columns, box=None, show_header=show_header, header_style="dim", pad_edge=False)
