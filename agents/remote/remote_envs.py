"""The envs of a run with actors, as the rest of the run sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from targetnet.agents.config.envs import envs_beside
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.remote.actor_pool import ActorPool, ArrivalOrder, PoolState
from targetnet.agents.remote.deliveries import Request, kind_of
from targetnet.agents.remote.transport import Transport
from targetnet.envs import Envs, Episode, Step


class RemoteEnvs(Envs):
    """The envs of all actors. The loop asks the actors; nobody steps these envs here.

    Args:
      config: of the run.
      transport: to its actors, which start at once; it is closed with the envs.
      say: shows one line about actors that are lost or waited for.

    Attributes:
      pool: the actors.
      order: of free-running actors; whoever runs the loop sets it before. None in phases.

    Raises:
      EnvError: the config's env cannot be made, or is another one where an actor is.
      EnvWorkerLost: an actor ended again and again.
    """

    def __init__(
        self,
        config: DqnConfig,
        transport: Transport,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        try:
            here = envs_beside(config)
            here.close()
            num_envs = config.actors * config.num_envs
            super().__init__(config.env_id, num_envs, here.spaces)
            self.frames_per_second, self.has_time_limit = (
                here.frames_per_second, here.has_time_limit,
            )  # fmt: skip
            self.order: ArrivalOrder | None = None
            self.pool = ActorPool(transport, config.actors, config.num_envs, say, kind_of(here))
        except BaseException:
            transport.close()
            raise

    def state(self) -> dict[str, Any]:
        """Returns where the envs were after the last deliveries."""
        return {"lanes": self.pool.state().lanes}

    def restore(self, state: dict[str, Any]) -> tuple[None, list[str]]:
        """Brings the actors back, by the fields of `PoolState`."""
        requests = [[Request(**request) for request in of] for of in state["requests"]]
        kept = PoolState(state["delivered"], state["lanes"], requests, state["weights"])
        return None, self.pool.restore(kept)

    def close(self) -> None:
        self.pool.close()
        if self.order is not None:
            self.order.file.close()
            self.order = None

    def reset(self) -> Step:
        self._refuse()

    def step(self, actions: np.ndarray) -> Step:
        self._refuse()

    def cut(self, which: np.ndarray) -> tuple[Episode, ...]:
        self._refuse()

    def render(self) -> Any:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError(f"the envs of {self.env_id!r} are with actors; loop = 'remote' asks these")
