"""The actors of a run with loop = "remote": how they are made, and their part of a checkpoint."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from agents.config.envs import envs_beside, training_envs
from agents.config.model import DqnConfig
from agents.dqn.agent import DqnAgent
from agents.dqn.needs import on_the_way, require_memory
from agents.remote.deliveries import Weights, sent_beside_epsilon
from agents.remote.in_process import InProcess
from agents.remote.order import Order
from agents.remote.ray_actors import RayActors
from agents.remote.remote_envs import RemoteEnvs
from agents.saved.host import ActorsPart, RequestPart, Resumed, RunHost
from envs import Envs
from rl_core.arguments import require_a
from rl_core.control.arrivals import Arrival, ArrivalsFile, read_arrivals
from rl_core.control.files import ControlFiles
from rl_core.errors import ArgumentError, RunDirError, shown
from rl_core.memory import Need
from rl_core.replay import format_bytes

_WEIGHTS = re.compile(r"actors/(\d{1,18})/(.+)")  # of requests, among a checkpoint's variables


def envs_of_run(
    config: DqnConfig, ray: str | None, say: Callable[[str], None] = lambda line: None
) -> Envs:
    """Makes the envs to train on.

    Args:
      ray: where the actors of a remote loop live, as for `agents.run.train.train`.
      say: shows one line about these actors.

    Raises:
      EnvError: the config's env cannot be made or trained on.
      ClusterError: Ray cannot be used.
      MemoryLimitError: the run needs more memory than there is.
      ArgumentError: `ray` is no text, or is given with another loop.
    """
    if ray is not None:
        require_a(str, "ray", ray, "an address such as '10.0.0.1:6379', 'auto' or 'off'")
    if config.loop != "remote":
        if ray is not None:
            raise ArgumentError(
                f"ray says where the actors of loop = 'remote' live, and loop is {config.loop!r}"
            )
        return training_envs(config)
    with contextlib.closing(envs_beside(config)) as here:
        on_the_way = _on_the_way(config, here).nbytes
        # Before any actor starts: they take long, and the agent is made after them.
        require_memory(config, here.observation_shape, here.observation_dtype, here.num_actions)
    if ray == "off":
        return RemoteEnvs(config, InProcess(config), say)
    actors = RayActors(config, ray, on_the_way)
    envs = RemoteEnvs(config, actors, say)
    envs.note = actors.note
    return envs


def memory_on_the_way(config: DqnConfig, envs: Envs) -> str:
    """Returns a line about the memory of deliveries that wait to be stored."""
    need = _on_the_way(config, envs)
    return (
        f"{need.what} may be on their way: up to {format_bytes(need.nbytes)} with their weights, "
        "beside the replay"
    )


def _on_the_way(config: DqnConfig, envs: Envs) -> Need:
    return on_the_way(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)


def stop_with(envs: Envs, stop: Callable[[], bool]) -> None:
    """Has a wait for actors that are not there yet end once `stop` says so; others have none."""
    if isinstance(envs, RemoteEnvs):
        envs.fleet.stop = stop


# The order of arrivals.


def keep_order(
    envs: Envs,
    config: DqnConfig,
    files: ControlFiles,
    host: RunHost,
    script: Sequence[Arrival] | None,
    say: Callable[[str], None],
) -> None:
    """Lets free-running actors deliver in a recorded order first, and records the order from there.

    Args:
      host: where the run goes on.
      script: arrivals of another run, which this one repeats; None: of this one, what it did after
        the checkpoint.
      say: shows one line.

    Raises:
      RunDirError: the record is damaged, or cannot be written.
    """
    if not isinstance(envs, RemoteEnvs):
        return
    envs.fleet.say = say
    if envs.note is not None:
        say(envs.note)
    if config.actor_pace == "phases":
        return
    position = host.actors.arrivals if host.actors else (0, None)
    file = ArrivalsFile(files.arrivals, *position)
    _require_actors(file.ahead, config, files)
    envs.order = Order(file, file.ahead if script is None else script, say)


def recorded_order(config: DqnConfig, files: ControlFiles, end_tick: int) -> list[Arrival]:
    """Returns the arrivals of a run that is to be repeated; none unless its actors ran freely.

    Raises:
      RunDirError: the record is damaged.
    """
    if config.loop != "remote" or config.actor_pace == "phases":
        return []
    found = read_arrivals(files.arrivals, end_tick // config.delivered_at_once)
    _require_actors(found, config, files)
    return found


# Checkpoints.


def actors_part(envs: Envs) -> ActorsPart | None:
    """Returns what a checkpoint keeps of the actors; None without any."""
    if not isinstance(envs, RemoteEnvs):
        return None
    fleet, order = envs.fleet, envs.order
    if order is not None:
        order.file.write()
    return ActorsPart(
        delivered=fleet.delivered(),
        requests=[[RequestPart(**r._asdict()) for r in of] for of in fleet.requests()],
        arrivals=(0, 0) if order is None else (order.file.length, order.file.seal),
    )


def requested_weights(envs: Envs) -> dict[str, np.ndarray]:
    """Returns the weights of the requests that are not answered, for a checkpoint's variables."""
    weights = envs.fleet.weights() if isinstance(envs, RemoteEnvs) else {}
    return {f"actors/{n}/{name}": w for n, of in weights.items() for name, w in of.items()}


def split_variables(
    variables: Mapping[str, np.ndarray],
) -> tuple[dict[str, np.ndarray], dict[int, dict[str, np.ndarray]]]:
    """Returns the agent's variables of a checkpoint, and the weights of requests by number."""
    own: dict[str, np.ndarray] = {}
    requested: dict[int, dict[str, np.ndarray]] = {}
    for name, array in variables.items():
        if found := _WEIGHTS.fullmatch(name):
            requested.setdefault(int(found[1]), {})[found[2]] = array
        else:
            own[name] = array
    return own, requested


def problem_of_actors(resumed: Resumed, agent: DqnAgent) -> str:
    """Returns how a checkpoint does not fit the actors of this run; "" if it does."""
    config, part = agent.config, resumed.host.actors
    if (part is None) == (config.loop == "remote" and resumed.checkpoint.tick > 0):
        return f"{'lacks' if part is None else 'has'} actors, and loop is {config.loop!r}"
    if part is None:
        return ""
    A, weights = config.actors, split_variables(resumed.checkpoint.variables)[1]
    kinds = _kinds(agent.state.weights())
    names = {"epsilon", *sent_beside_epsilon(config)}
    if len(part.delivered) != A or len(part.requests) != A:
        return f"is of {len(part.delivered):,} actors, not of {A:,}"
    for actor, (count, requests) in enumerate(zip(part.delivered, part.requests, strict=True)):
        numbers = [request.number for request in requests]
        if numbers != list(range(count, count + len(numbers))):
            return f"has requests {shown(numbers)} after {count:,} deliveries of actor {actor}"
        for request in requests:
            if _kinds(weights.get(request.weights, {})) != kinds:
                return f"has no weights {request.weights} of this network, which a request names"
            if request.live.keys() != names:
                return f"has a request with the live values {shown(sorted(request.live))}"
    return ""


def _kinds(weights: Weights) -> dict[str, tuple[object, ...]]:
    return {name: (array.shape, array.dtype) for name, array in weights.items()}


def _require_actors(arrivals: Sequence[Arrival], config: DqnConfig, files: ControlFiles) -> None:
    if arrivals and max(arrival.actor for arrival in arrivals) >= config.actors:
        raise RunDirError(f"{files.arrivals} is damaged: it is of more than {config.actors} actors")
