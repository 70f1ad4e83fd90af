"""The actors of a run with loop = "remote": how they are made, and their part of a checkpoint."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from targetnet.agents.config.envs import envs_beside, training_envs
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.memory_estimate import on_the_way, require_memory
from targetnet.agents.dqn.objective import require_branching
from targetnet.agents.loops.choice import LOOPS
from targetnet.agents.remote.actor_pool import ArrivalOrder
from targetnet.agents.remote.deliveries import Weights, sent_beside_epsilon
from targetnet.agents.remote.loop import remote_loop
from targetnet.agents.remote.ray_actors import RayActors
from targetnet.agents.remote.remote_envs import RemoteEnvs
from targetnet.agents.remote.transport import InProcess
from targetnet.agents.saved.host import ActorsPart, RequestPart, ResumeMoment, RunHost
from targetnet.envs import Envs
from targetnet.rl_core.arguments import require_a
from targetnet.rl_core.checkpoint.store import CheckpointError
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.records import Arrival, ArrivalsFile, read_arrivals
from targetnet.rl_core.errors import ArgumentError, RlCoreError, RunDirError, quoted
from targetnet.rl_core.machine import Need
from targetnet.rl_core.replay import format_bytes

LOOPS["remote"] = remote_loop
_WEIGHTS = re.compile(r"actors/(\d{1,18})/(.+)")  # of requests, among a checkpoint's variables


def envs_of_run(
    config: DqnConfig, ray: str | None, say: Callable[[str], None] = lambda line: None
) -> Envs:
    """Makes the envs to train on; `ray` is as for `targetnet.agents.run.train.train`.

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
        return training_envs(config, check=config.check_env)
    with contextlib.closing(envs_beside(config, check=config.check_env)) as here:
        on_the_way = _on_the_way(config, here).nbytes
        # Before any actor starts: they take long, and the agent is made after them.
        require_memory(
            config, here.observation_shape, here.observation_dtype, here.num_actions,
            packed=bool(here.parts), branches=here.branches,
        )  # fmt: skip
        require_branching(config, here.branches)
    if ray == "off":
        envs = RemoteEnvs(config, InProcess(config), say)
    else:
        actors = RayActors(config, ray, on_the_way, say)
        envs = RemoteEnvs(config, actors, say)
        actors.say = lambda line: envs.pool.say(line)
    envs.not_repeated, envs.check_is_due = here.not_repeated, here.check_is_due
    return envs


def memory_on_the_way(config: DqnConfig, envs: Envs) -> str:
    """Returns a line about the memory of deliveries that wait to be stored."""
    need = _on_the_way(config, envs)
    return (
        f"{need.what} may be on their way: up to {format_bytes(need.nbytes)} with their weights, "
        "beside the replay"
    )


def _on_the_way(config: DqnConfig, envs: Envs) -> Need:
    return on_the_way(
        config, envs.observation_shape, envs.observation_dtype, envs.num_actions,
        packed=bool(envs.parts), branches=envs.branches,
    )  # fmt: skip


def stop_with(envs: Envs, stop: Callable[[], bool]) -> None:
    """Has a wait for actors that are not there yet end once `stop` says so; others have none."""
    if isinstance(envs, RemoteEnvs):
        envs.pool.stop = stop


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
      script: arrivals of another run, which this one repeats; None: of this one's own.

    Raises:
      RunDirError: the record is damaged, or cannot be written.
    """
    if not isinstance(envs, RemoteEnvs):
        return
    envs.pool.say = say
    if config.actor_pace == "phases":
        return
    position = host.actors.arrivals if host.actors else (0, None)
    file = ArrivalsFile(files.arrivals, *position)
    _require_actors(file.ahead, config, files)
    envs.order = ArrivalOrder(file, file.ahead if script is None else script, say)


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
    state, order = envs.pool.state(), envs.order
    if order is not None:
        order.file.write()
    return ActorsPart(
        delivered=[*state.delivered],
        requests=[[RequestPart(**r._asdict()) for r in of] for of in state.requests],
        arrivals=(0, 0) if order is None else (order.file.length, order.file.seal),
    )


def requested_weights(envs: Envs) -> dict[str, np.ndarray]:
    """Returns the weights of the requests that are not answered, for a checkpoint's variables."""
    weights = envs.pool.state().weights if isinstance(envs, RemoteEnvs) else {}
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


def require_actors_fit(resumed: ResumeMoment, agent: DqnAgent) -> None:
    """Checks that a checkpoint fits the actors of this run; its types alone do not say that.

    Raises:
      CheckpointError: it does not; names the file of the checkpoint and what is wrong in it.
    """
    config, part, number = agent.config, resumed.host.actors, resumed.checkpoint.number
    problem, file = "", "host.json"
    if (part is None) == (config.loop == "remote" and resumed.checkpoint.tick > 0):
        problem = f"{'lacks' if part is None else 'has'} actors, and loop is {config.loop!r}"
    elif part is not None:
        problem = _problem_of_counts(part, resumed.host.loop.tick, config)
        problem = problem or _problem_of_requests(part, resumed.host.agent.updates, agent)
        if not problem:
            file = "variables.safetensors"
            problem = _problem_of_weights(part, resumed.checkpoint.variables, agent)
    if problem:
        raise CheckpointError(f"{file} of checkpoint {number} {problem}")


def _problem_of_counts(part: ActorsPart, tick: int, config: DqnConfig) -> str:
    A, free = config.actors, config.actor_pace == "free"
    if len(part.delivered) != A or len(part.requests) != A:
        counts = f"{len(part.delivered):,} and {len(part.requests):,}"
        return f"is damaged: delivered and requests are of {counts} actors, not of {A:,}"
    taken = sum(part.delivered)
    if taken * (config.actor_steps + 1) != tick:
        return f"is damaged: {taken:,} deliveries are not the rows of {tick:,} time steps"
    if not free and len(set(part.delivered)) > 1:
        return f"is damaged: the same number of each actor is wanted, got {quoted(part.delivered)}"
    if part.arrivals[0] != (taken if free else 0):
        return f"is damaged: arrivals has {part.arrivals[0]:,} deliveries with actor_pace = " + (
            repr(config.actor_pace)
        )
    return ""


def _problem_of_requests(part: ActorsPart, updates: int, agent: DqnAgent) -> str:
    config, knobs = agent.config, agent.hyperparameters
    names = {"epsilon", *sent_beside_epsilon(config)}
    wanted = config.actor_ahead if config.actor_pace == "free" else 0
    for actor, (count, requests) in enumerate(zip(part.delivered, part.requests, strict=True)):
        numbers = [request.number for request in requests]
        if numbers != list(range(count, count + wanted)):
            return (
                f"is damaged: it has requests {quoted(numbers)} after {count:,} deliveries of "
                f"actor {actor}, and {wanted} are wanted"
            )
        made = [request.updates for request in requests]
        if made != sorted(made) or any(of > updates for of in made):
            return f"is damaged: it has requests at updates {quoted(made)} of {updates:,}"
        for request in requests:
            if request.live.keys() != names:
                return f"has a request with the live values {quoted(sorted(request.live))}"
            try:
                for name, value in request.live.items():
                    knobs.check(name, value)
            except RlCoreError as error:
                return f"is damaged: it has a request of actor {actor} in which {error}"
    return ""


def _problem_of_weights(
    part: ActorsPart, variables: Mapping[str, np.ndarray], agent: DqnAgent
) -> str:
    weights, kinds = split_variables(variables)[1], _kinds(agent.state.weights())
    named = {request.weights for of in part.requests for request in of}
    for number in sorted(named):
        if _kinds(weights.get(number, {})) != kinds:
            return f"has no weights {number} of this network, which a request names"
    for number, of in weights.items():
        if number not in named:
            return f"is damaged: it has weights {number}, which no request names"
        for name, array in of.items():
            if not np.isfinite(array).all():
                return f"is damaged: {name} of weights {number} has values that are not finite"
    return ""


def _kinds(weights: Weights) -> dict[str, tuple[object, ...]]:
    return {name: (array.shape, array.dtype) for name, array in weights.items()}


def _require_actors(arrivals: Sequence[Arrival], config: DqnConfig, files: ControlFiles) -> None:
    if arrivals and max(arrival.actor for arrival in arrivals) >= config.actors:
        raise RunDirError(f"{files.arrivals} is damaged: it is of more than {config.actors} actors")
