"""Kills populations with -9 around their exchanges, and sees whether they become the same ones.

    python -m tests.agents.population.exchange_kills --kills 20

Half of the kills come at a system call within or right after an exchange, the others at a random
moment. A population that has come to its end is compared, and begins again.
"""

import argparse
import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

from targetnet.agents.population.exchanges import PopulationExchanges
from targetnet.agents.population.repeat import repeat_population
from targetnet.agents.population.train import resume_population, train_population
from targetnet.agents.run.repeat import repeat
from targetnet.rl_core.control.population import ExchangeRecord
from targetnet.rl_core.errors import RunDirError
from tests.agents.kills import count_down, finish, in_a_fork
from tests.agents.population.test_exchanges import NAMES, PBT, digests, members, steer

MORE = {"env_steps": 700, "checkpoint_steps": 50}


def child(run, rng=None):
    """Forks a process that begins or resumes the population; perhaps it dies in an exchange."""
    if rng is not None:
        at_exchange, calls = rng.randrange(1, 8), rng.randrange(1, 60)

    def work():
        if rng is not None:
            decide, made = PopulationExchanges._decide, []

            def dies(self, runs):
                made.append(1)
                if len(made) == at_exchange:
                    count_down(calls)
                return decide(self, runs)

            PopulationExchanges._decide = dies
        if not (run / "population.toml").exists():
            train_population(members(PBT, **MORE), run, on_tick=steer)
            return 0
        try:
            resume_population(run, on_tick=steer)
        except RunDirError as error:
            if "are finished" not in str(error):  # it was killed after its last word
                raise
        return 0

    return in_a_fork(work)


def campaign(folder, kills, seed=0):
    """Kills `kills` processes at work; returns how many populations came to their end."""
    rng, straight, run = random.Random(seed), folder / "straight", folder / "run"
    began = time.monotonic()
    finish(child(straight))
    seconds, hits, ends = time.monotonic() - began, 0, 0
    copied = [[*of.copies()] for of in ExchangeRecord(straight).all]
    assert sum(map(len, copied)) >= 4
    while hits < kills:
        in_exchange = rng.random() < 0.5
        process = child(run, rng if in_exchange else None)
        if not in_exchange:
            time.sleep(rng.uniform(0, seconds))
            os.kill(process, signal.SIGKILL)
        if finish(process, allowed=(0, -signal.SIGKILL)):
            hits += 1
        else:
            ends += 1
            compare(run, straight)
            shutil.rmtree(run)
    finish(child(run))
    compare(run, straight)
    assert finish(in_a_fork(lambda: not replayed(run))) == 0
    return ends + 1


def compare(run, straight):
    assert digests(run) == digests(straight)
    made, wanted = (
        [[(name, of) for name, of in exchange.copies()] for exchange in ExchangeRecord(at).all]
        for at in (run, straight)
    )
    assert made == wanted
    left = [str(path) for path in run.rglob(".*")]
    assert left == [], left


def replayed(run):
    together = repeat_population(run)
    alone = [repeat(run / name) for name in NAMES]
    return all(of.identical for of in [*together.values(), *alone])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        ends = campaign(Path(temporary), arguments.kills, arguments.seed)
    print(
        f"{arguments.kills} kills at work; {ends} populations, each as if not killed and replayed"
    )


if __name__ == "__main__":
    main()
