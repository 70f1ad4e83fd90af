"""Routes of the Steer tab: reading returns JSON, writing puts commands into a run's inbox."""

from __future__ import annotations

import functools
import hmac
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from tensorboard.backend import http_util
from tensorboard.plugins import base_plugin
from werkzeug.wrappers import Request, Response

from targetnet.rl_core.board.steer import runs
from targetnet.rl_core.board.steer.changes import UnreadCommands, for_page, read_changes
from targetnet.rl_core.board.steer.curves import MOST_POINTS, Curves
from targetnet.rl_core.board.steer.guard import Guard, refuse_others
from targetnet.rl_core.board.steer.runs import Runs, UnknownRun, log_directories
from targetnet.rl_core.control.client import NotRunning, RunClient, begin_all
from targetnet.rl_core.control.commands import (
    MAX_BYTES,
    BadCommand,
    Command,
    do_command,
    read_object,
    set_command,
)
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import require_length
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.errors import RlCoreError, RunDirError, in_one_line
from targetnet.rl_core.files import read_regular

STATIC = Path(__file__).parent / "static"
_TOKEN_BYTES = 1_000  # largest accepted token file; a real one has 33 bytes
# Fixed here, because the system's MIME table may differ, and a browser runs a module only with
# the right type.
_KINDS = {".js": "text/javascript", ".css": "text/css"}

logger = logging.getLogger("tensorboard.steer")
Handler = Any  # a WSGI application


class CommandBody(BaseModel):
    """One command from a page: sets a live value or runs an action."""

    model_config = ConfigDict(extra="forbid", strict=True)

    set: str | None = None
    value: Any = None
    do: str | None = None

    def command(self) -> Command:
        if (self.set is None) == (self.do is None):
            raise BadCommand("each command has either set and value, or do")
        if self.do is not None:
            return do_command(self.do, "board", self.value)
        return set_command(str(self.set), self.value, "board")


class Body(BaseModel):
    """Commands in the body of a POST.

    Attributes:
      run_token: the run's, if the board needs it.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    commands: Annotated[list[CommandBody], Field(min_length=1, max_length=50)]
    run_token: str = ""

    def make_commands(self) -> list[Command]:
        """Returns the commands, each with an id of its own; raises BadCommand."""
        return [asked.command() for asked in self.commands]


class BodyForRun(Body):
    """The body of a POST to the route for one run."""

    run: str


class BodyForMembers(Body):
    """The body of a POST to the route for members of a population: each gets the commands.

    Attributes:
      run_token: the tokens of these members with space between them, if the board needs them.
    """

    population: str
    members: Annotated[list[str], Field(min_length=1)]


BodyT = TypeVar("BodyT", bound=Body)


class SteerPlugin(base_plugin.TBPlugin):
    """The plugin: shows the runs below the log directory and steers them."""

    plugin_name = "steer"

    def __init__(self, context: base_plugin.TBContext) -> None:
        flags = context.flags
        host = "" if getattr(flags, "bind_all", False) else getattr(flags, "host", None)
        self._guard = Guard(
            # Without the flag TensorBoard listens on localhost.
            "localhost" if host is None else host,
            getattr(flags, "steer_allow_host", None) or (),
        )
        self._runs = Runs(
            log_directories(
                getattr(flags, "logdir", "") or context.logdir or "",
                getattr(flags, "logdir_spec", "") or "",
            )
        )
        self._curves = Curves(context.data_provider)
        self._sent = UnreadCommands()

    def get_plugin_apps(self) -> dict[str, Handler]:
        shown = [path for path in sorted(STATIC.iterdir()) if path.suffix in _KINDS]
        files = {f"/{path.name}": self._file(path) for path in shown}
        return files | {
            "/session": self._route(self._session, writing="page"),
            "/runs": self._route(self._list_runs),
            "/run": self._route(self._show_run),
            "/tags": self._route(self._list_tags),
            "/history": self._route(self._history),
            "/command": self._route(self._command, writing="command"),
            "/members": self._route(self._show_members),
            "/command_members": self._route(self._command_members, writing="command"),
        }

    def is_active(self) -> bool:
        return bool(self._runs.all() or self._runs.problems())

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        return base_plugin.FrontendMetadata(
            es_module_path="/index.js", tab_name="Steer", disable_reload=True
        )

    # Routes.

    def _session(self, request: Request) -> Any:
        return {
            "token": self._guard.new_page(dict(request.headers)),
            "needs_run_token": not self._guard.loopback_only,
        }

    def _list_runs(self, request: Request) -> Any:
        problems = self._runs.problems()
        runs = [_damaged(name, problem) for name, problem in problems.items()]
        for name, files in self._runs.all().items():
            try:
                state, alive = read_state(files)
            except RunDirError as error:  # a damaged run must not hide the other runs
                runs.append(_damaged(name, str(error)))
                continue
            listed = state.model_dump(include={"status", "env_id", "env_step", "env_steps", "time"})
            runs.append({"name": name, "alive": alive, "problem": None} | listed)
        runs.sort(key=lambda run: run["name"])
        populations = [
            {
                "name": name,
                "path": str(population.path),
                "members": list(population.members.values()),
            }
            for name, population in sorted(self._runs.populations().items())
        ]
        directories = self._runs.directories
        return {"runs": runs, "populations": populations, "directories": directories}

    def _show_run(self, request: Request) -> Any:
        files = self._runs.require(request.args.get("name", ""))
        state, alive = read_state(files)
        if not alive:
            self._sent.take_back(files.run)
        require_length(files.log, state.log_bytes)
        changes = read_changes(files.log, request.args.get("position", 0, int))
        return {
            "alive": alive,
            "now": time.time(),  # the browser's machine may have a different clock
            "state": state.model_dump(mode="json"),
            "log": [for_page(files.run, entry) for entry in changes.entries],
            "begin": changes.begin,
            "position": changes.end,
            "token_file": str(files.token),
        }

    def _list_tags(self, request: Request) -> Any:
        name = request.args.get("name", "")
        self._runs.require(name)
        return {"tags": self._curves.tags(request, name)}

    def _history(self, request: Request) -> Any:
        name = request.args.get("name", "")
        self._runs.require(name)
        tags, most = request.args.getlist("tag"), request.args.get("points", MOST_POINTS, int)
        return {"curves": self._curves.points(request, name, tags, most)}

    def _command(self, request: Request) -> Any:
        body = _read_body(BodyForRun, request)
        commands = body.make_commands()
        files = self._runs.require(body.run)
        if not self._guard.loopback_only:
            _require_token(files, [body.run_token.strip()])
        asked = RunClient(files.run, who="board").begin(commands)
        self._sent.add(files.run, asked)
        return {"ids": asked.ids}

    def _show_members(self, request: Request) -> Any:
        population = self._runs.require_population(request.args.get("name", ""))
        positions = runs.read_positions(request.args.getlist("of"))
        shown = runs.show(self._runs, population, positions)
        for member in shown["members"]:
            if not member["alive"] and member["status"] != "damaged":
                self._sent.take_back(self._runs.require(member["run"]).run)
        return shown

    def _command_members(self, request: Request) -> Any:
        body = _read_body(BodyForMembers, request)
        body.make_commands()  # a bad one is refused before any member is looked at
        population = self._runs.require_population(body.population)
        clients, problems = {}, {}
        for member in dict.fromkeys(body.members):
            try:
                files = self._runs.require(population.run_of(member))
                if not self._guard.loopback_only:
                    _require_token(files, body.run_token.split())
            except RlCoreError as error:  # the other members get their commands all the same
                problems[member] = str(error)
                continue
            clients[member] = RunClient(files.run, who="board")
        sent = begin_all(clients, body.make_commands)
        for member, of in sent.asked.items():
            self._sent.add(clients[member].files.run, of)
        asked = {m: {"ids": of.ids, "position": of.position} for m, of in sent.asked.items()}
        return {"asked": asked, "problems": problems | sent.problems}

    # Parts that the routes share.

    def _route(self, answer: Callable[[Request], Any], writing: str = "") -> Handler:
        @functools.wraps(answer)
        def handle(request: Request) -> Response:
            headers = dict(request.headers)  # Werkzeug gives names in the form "Content-Type"
            if writing == "command":
                refusal = self._guard.refuse_writing(request.method, headers)
                if refusal is None and self._guard.loopback_only:
                    refusal = refuse_others(request.environ)
            elif writing == "page":
                refusal = self._guard.refuse_page(request.method, headers)
            elif request.method not in ("GET", "HEAD"):
                return _json(request, {"error": "GET only"}, 405)
            else:
                refusal = self._guard.refuse_reading(headers)
            if refusal is not None:
                return _refused(request, refusal.status, refusal.reason)
            try:
                return _json(request, answer(request))
            except RlCoreError as error:
                return _refused(request, _STATUS.get(type(error), 400), str(error))
            except OSError as error:  # a run's file has gone or is not readable
                return _refused(request, 409, f"cannot read {error.filename}: {error.strerror}")

        return Request.application(handle)

    def _file(self, path: Path) -> Handler:
        @Request.application
        def serve(request: Request) -> Response:
            return http_util.Respond(request, path.read_bytes(), _KINDS[path.suffix])

        return serve


class WrongToken(RlCoreError, PermissionError):
    """A command without the run's token, on a TensorBoard that other machines can reach."""


class TooLarge(RlCoreError, ValueError):
    """A request body that is too large or of unknown length."""


# 401 is reserved for the page's token: on 401 the page asks for a new token by itself.
_STATUS = {UnknownRun: 404, WrongToken: 403, NotRunning: 409, RunDirError: 409, TooLarge: 413}


def _read_body(model: type[BodyT], request: Request) -> BodyT:
    try:
        return model.model_validate(read_object(_bytes_of(request)))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadCommand(in_one_line(f"{where}: {first['msg']}")) from None


def _bytes_of(request: Request) -> bytes:
    length = request.content_length
    if length is None or length > MAX_BYTES:
        raise TooLarge(f"the body must have a known length of at most {MAX_BYTES} bytes")
    return request.get_data(cache=False)


def _damaged(name: str, problem: str) -> dict[str, Any]:
    """Returns the list entry of a damaged run; the page lists it last, because its `time` is 0."""
    return {"name": name, "alive": False, "status": "damaged", "time": 0, "problem": problem}


def _require_token(files: ControlFiles, given: list[str]) -> None:
    """Checks that the run's token is among those that were given."""
    try:
        wanted = read_regular(files.token, most=_TOKEN_BYTES).decode().strip()
    except (OSError, ValueError):
        raise WrongToken(f"TensorBoard cannot read {files.token}") from None
    # "replace": a JSON string may contain a lone surrogate, which cannot be encoded.
    found = [hmac.compare_digest(one.encode(errors="replace"), wanted.encode()) for one in given]
    if not wanted or not any(found):
        raise WrongToken("this board listens to other machines: type the token of the run")


def _refused(request: Request, status: int, reason: str) -> Response:
    method, path = in_one_line(request.method), in_one_line(request.path)
    logger.warning("refused %s %s: %s", method, path, in_one_line(reason))
    return _json(request, {"error": reason}, status)


def _json(request: Request, content: Any, status: int = 200) -> Response:
    headers = [("X-Frame-Options", "SAMEORIGIN")]
    return http_util.Respond(request, content, "application/json", code=status, headers=headers)
