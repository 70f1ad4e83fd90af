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

    def take(self, actors, seconds):
        actor = self._rng.choice(actors) if len(actors) > 1 else actors[0]
        # An actor may be lost before it has worked, and after it.
        if self._rng.random() < self._losses:
            self._lose(actor)
        answer = super().take([actor], seconds)
        if self._rng.random() < self._losses:
            self._lose(actor)
        return answer

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

    def take(self, actors, seconds):
        if self.lost and not self.there:
            others = [actor for actor in actors if actor != self._away]
            assert others or seconds is not None, "this would wait"
            if not others:
                self.there = self._asked()
                time.sleep(0.001)
            return super().take(others, seconds) if others else None
        if not self.lost and self._away in actors and self._due():
            self.lost = True
            self._collectors.pop(self._away).close()
            raise ActorLost(self._away, "by design")
        return super().take(actors, seconds)

    def _due(self):
        """Whether its turn has come after three deliveries."""
        return self._collectors[self._away]._collected == 3
