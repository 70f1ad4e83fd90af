"""The command mcp: a server for assistants that speaks over standard input and output."""

from __future__ import annotations

import functools
import inspect
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from targetnet.agents.cli import INTERRUPTED
from targetnet.rl_core.errors import RlCoreError, RunDirError, in_one_line, quoted, reason_of
from targetnet.rl_core.extras import require_package

if TYPE_CHECKING:
    from rich.console import Console

_INSTRUCTIONS = (
    "Runs of targetnet: DQN-style agents in training. list_runs names them; status, curve and log "
    "show one; set changes a live value and do lets the run act, which is logged and can be "
    "replayed. Look at status before you set anything: it has each value's bounds and meaning."
)


@dataclass(frozen=True)
class Mcp:
    """Let an assistant look at runs and steer them, over standard input and output.

    Example: targetnet mcp runs --read-only
    """

    runs: Annotated[Positional[Path], arg(metavar="RUNS")]
    """A directory of runs, or one run. Nothing outside of it can be read or steered."""
    read_only: bool = False
    """Offer no tool that changes anything."""

    def __call__(self, console: Console) -> int:
        require_package("mcp", "targetnet mcp needs mcp", "mcp")
        if not self.runs.is_dir():
            raise RunDirError(f"no such directory: {quoted(str(self.runs))}")
        signal.signal(signal.SIGINT, _leave)
        server(self.runs, read_only=self.read_only).run("stdio")
        return 0


def _leave(*_: Any) -> None:
    """Ends the process: the package would wait for its thread, which waits for standard input."""
    print("targetnet: interrupted", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)


def server(runs: Path, *, read_only: bool = False) -> Any:
    """Returns the server (an MCPServer) for the runs in a directory."""
    from mcp.server import MCPServer
    from mcp.types import ToolAnnotations

    from targetnet.agents.cli.assistant import READING, STEERING, Tools

    made = MCPServer("targetnet", instructions=_INSTRUCTIONS, log_level="ERROR")
    tools = Tools(runs)
    for name in READING if read_only else (*READING, *STEERING):
        hints = ToolAnnotations(read_only_hint=name in READING, open_world_hint=False)
        tool = getattr(tools, name)
        made.add_tool(_in_one_line(tool), name, description=inspect.getdoc(tool), annotations=hints)
    return made


def _in_one_line(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a tool's mistakes those that an assistant is told, in one line."""
    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(tool)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return tool(*arguments, **named)
        except RlCoreError as error:
            raise ToolError(in_one_line(error, 1_000)) from None
        except (OSError, ValueError) as error:
            raise ToolError(f"cannot read the run: {reason_of(error)}") from None

    return call
