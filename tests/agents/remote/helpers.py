"""Small runs with actors, and a transport on which everything goes wrong that can."""

import random
import time
from collections.abc import Callable

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.remote.deliveries import ActorLost
from targetnet.agents.remote.transport import InProcess
from tests.agents.remote.toy import ID

SETTINGS = {
    "updates_per_learn": 1,
    "env_id": ID,
    "env_steps": 400,
    "loop": "remote",
    "actors": 3,
    "actor_steps": 5,
    "num_envs": 2,
    "hidden": (8,),
    "batch_size": 8,
    "replay_capacity": 300,
    "learn_start": 50,
    "learn_period": 4,
    "sync_period": 7,
    "log_period": 100,
    "eval_period": 10_000,
    "eval_episodes": 1,
    "final_eval_episodes": 1,
    "checkpoint_seconds": 0.0,
    "past_states": 1,
    "xla": False,
}


def config(**settings):
    return DqnConfig(**(SETTINGS | settings))


class Unreliable(InProcess):
    """Answers come in any order, are late, or are lost together with their actor.

    Args:
      seed: of its chance.
      losses: share of the answers that are lost.
    """

    def __init__(self, config, seed, losses=0.0):
        super().__init__(config)
        self._rng, self._losses, self.lost = random.Random(seed), losses, 0

    def take(self, actor):
        # An actor may be lost before it has worked, and after it.
        if self._rng.random() < self._losses:
            self._lose(actor)
        answer = super().take(actor)
        if self._rng.random() < self._losses:
            self._lose(actor)
        return answer

    def take_any(self):
        busy = [actor for actor, requests in self._requests.items() if requests]
        return self.take(self._rng.choice(busy))

    def _lose(self, actor):
        self.lost += 1
        self._collectors.pop(actor).close()
        raise ActorLost(actor, "by chance")


class Repeating(InProcess):
    """An actor is lost once, and the one in its place takes long to repeat its episodes.

    Args:
      away: which one; None: no one.
      asked: called at each look for it; says if it is there.
    """

    def __init__(self, config, away, asked: Callable[[], bool]):
        super().__init__(config)
        self._away, self._asked, self.lost, self.there = away, asked, False, False

    def ready(self, actor, seconds):
        if self._held() == actor or (actor is None and not self._others()):
            self.there = self._asked()
            time.sleep(0.001)
            return self.there
        return True

    def take(self, actor):
        assert actor != self._held(), "this would wait"
        if actor == self._away and not self.lost and self._collectors[actor]._collected == 3:
            self.lost = True
            self._collectors.pop(actor).close()
            raise ActorLost(actor, "by design")
        return super().take(actor)

    def take_any(self):
        others = self._others()
        assert others, "this would wait"
        while self._turn[0] not in others:
            self._turn.rotate(-1)
        return super().take_any()

    def _held(self):
        """The actor that is not there yet."""
        return self._away if self.lost and not self.there else None

    def _others(self):
        return [a for a in self._turn if self._requests[a] and a != self._held()]
