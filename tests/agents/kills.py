"""Kills runs with -9 and sees whether they still become the same runs.

    python -m tests.agents.kills --kills 1000            one run again and again
    python -m tests.agents.kills --torture --kills 300   many kinds of steered runs, each run
                                                         killed once, resumed and compared;
                                                         --only WORDS: kinds that have them
    python -m tests.agents.kills --one-poll --kills 20   killed right after it answered several
                                                         commands at once, resumed and replayed

Half of the kills come at a random moment, half at a random system call of those that write,
sync, rename or remove, start-up included. Every process is a fork of one that has imported
TensorFlow, which is most of a start's time.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from rich.progress import Progress, track

from targetnet.rl_core.control.client import RunClient
from targetnet.rl_core.control.commands import do_command, set_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.errors import RunDirError
from tests.agents.data.datasets import random_dataset

CALLS = ("write", "pwrite", "fsync", "rename", "unlink", "replace", "rmdir", "mkdir", "truncate")
SETTINGS = {
    "env_steps": 6_000,
    "hidden": (8,),
    "batch_size": 8,
    "replay_capacity": 1_000,
    "learn_start": 50,
    "learn_period": 2,
    "sync_period": 37,
    "log_period": 100,
    "eval_period": 2_000,
    "eval_episodes": 2,
    "final_eval_episodes": 2,
    "xla": False,
    "checkpoint_seconds": 0.05,
}

DATASET = "a dataset"  # stands for one that is written for the campaign
ARMS = [{"exempt": ["head"], "updates": 7}, {"exempt": ["torso"], "updates": 5}]
SHORTER = SETTINGS | {"env_steps": 1_200, "eval_period": 500, "log_period": 100}
# None: as by default; rollouts have no replay and no target network.
ROLLOUTS = {
    "rollout": 16, "num_envs": 4, "epochs": 2, "batch_size": 16, "loss": "squared",
    "replay_capacity": None, "learn_start": None, "learn_period": None, "sync_period": None,
}  # fmt: skip
MEMORY = {
    "env_wrapper": "elements", "env_wrapper_kwargs": {"keep": [0, 2]}, "recurrent": "gru",
    "recurrent_units": 6, "sequence_length": 6, "burn_in": 3, "learn_period": 8,
}  # fmt: skip
SIGNALS = {"env_id": "tests.agents.signals:Signals-v0"}
PARTS = SIGNALS | {
    "env_kwargs": {"masks": True, "parts": True}, "part_networks": {"camera": "minatar"},
}  # fmt: skip
KINDS = {
    "plain": {},
    "plain, eight envs, freezing": {"num_envs": 8, "updates_per_learn": 3, "freeze": ARMS},
    "prioritized, noisy, n-step": {"prioritized": True, "noisy": True, "n_step": 3},
    "categorical, dueling, double": {
        "head": "categorical", "v_min": 0.0, "v_max": 50.0, "atoms": 11, "dueling": True,
        "double": True,
    },
    "planned actions on the weights": {
        "actions": [
            {"do": "reset", "block": "head", "every": 250},
            {"do": "recycle", "threshold": 0.3, "every": 170},
            {"do": "perturb", "factor": 0.9, "block": "torso", "every": 90},
        ],
    },
    "async": {"num_envs": 2, "vectorization": "async"},
    "concurrent": {"loop": "concurrent", "learn_period": 16, "updates_per_learn": 8},
    "concurrent, async, prioritized": {
        "loop": "concurrent", "learn_period": 20, "updates_per_learn": 3, "prioritized": True,
        "num_envs": 2, "vectorization": "async",
    },
    "compiled": {
        "loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 20, "freeze": ARMS,
    },
    "actors in phases": {"loop": "remote", "actors": 3, "actor_steps": 9, "learn_period": 4},
    "actors that run freely": {
        "loop": "remote", "actor_pace": "free", "actors": 3, "actor_steps": 9, "num_envs": 2,
        "learn_period": 4, "prioritized": True,
    },
    "branches": {
        "env_id": "tests.agents.lamps:Levers-v0", "num_envs": 2, "dueling": True,
        "prioritized": True,
    },
    "memory": MEMORY | {"prioritized": True},
    "memory, concurrent": MEMORY | {
        "loop": "concurrent", "learn_period": 16, "num_envs": 2, "recurrent": "lstm", "n_step": 2,
    },
    "memory, compiled": MEMORY | {
        "loop": "compiled", "env_id": "InGraph/CartPole-v1", "env_wrapper": None,
        "env_wrapper_kwargs": None, "chunk": 20,
    },
    "memory, parts, masks, normalized": MEMORY | PARTS | {
        "env_wrapper": None, "env_wrapper_kwargs": None, "normalize_observations": True,
    },
    "frames, masks": SIGNALS | {
        "env_kwargs": {"masks": True}, "frame_stack": 3, "n_step": 3, "num_envs": 2,
    },
    "frames, normalized, concurrent": SIGNALS | {
        "frame_stack": 3, "normalize_observations": True, "loop": "concurrent", "learn_period": 16,
        "updates_per_learn": 4,
    },
    "frames, normalized, compiled": {
        "loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 20, "frame_stack": 3,
        "normalize_observations": True,
    },
    "parts, masks, normalized": PARTS | {
        "normalize_observations": True, "num_envs": 2, "prioritized": True,
    },
    "demonstrations": {
        "begin_with": DATASET, "prioritized": True, "demonstration_bonus": 0.5,
        "margin_weight": 0.5, "n_step": 2,
    },
    "demonstrations, concurrent": {
        "begin_with": DATASET, "margin_weight": 0.5, "loop": "concurrent", "learn_period": 16,
        "updates_per_learn": 4, "num_envs": 2,
    },
    "demonstrations, compiled": {
        "begin_with": DATASET, "loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 20,
    },
    "offline": {"offline": DATASET, "cql_weight": 0.5, "replay_capacity": None, "epsilon": None},
    "chain": {"chain": 3, "refresh_period": 5},
    "chain of heads, compiled": {
        "loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 20, "chain": 3,
        "chain_torso": "shared", "refresh_period": 5,
    },
    "copies by rules": {
        "sync_growth": 0.2, "sync_fit": 0.9, "sync_fit_updates": 5, "sync_distance": 0.3,
        "on_sync": ["reset_moments"],
    },
    "bandit over periods": {"controller": "period_bandit", "controller_period": 60},
    "rollouts": ROLLOUTS,
    "rollouts, compiled": ROLLOUTS | {
        "loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 8, "eval_period": 10_000,
    },
}  # fmt: skip
# Answered in one poll before the first time step.
LETTERS = (
    set_command("tau", 0.7, "api"),
    do_command("snapshot", "api"),
    do_command("checkpoint", "api"),
    do_command("rewind", "api", 1),
    do_command("checkpoint", "api"),
    do_command("sync", "api"),
)


def steer(agent, tick):
    """Changes between checkpoints and at odd places; the same ones at the same time steps."""
    live, config = agent.hyperparameters, agent.config
    span = {
        "plain": config.num_envs,
        "concurrent": config.learn_period,
        "compiled": config.chunk * config.num_envs,
        "remote": config.delivered_at_once * config.num_envs,
    }[config.loop]
    changes = {
        201: ("sync_period", 11), 450: ("learning_rate", 3e-3), 700: ("epsilon", 0.3),
        903: ("exempt", "torso"), 1_000: ("exempt", "auto"), 1_101: ("epsilon", "auto"),
    }  # fmt: skip
    for env_step, (name, value) in changes.items():
        if tick.env_step - span < env_step <= tick.env_step and name in live:
            live[name] = value


def torture(folder, kills, seed=0, words=""):
    """Kills `kills` runs, each once; returns how many digests are as if nobody had.

    Args:
      words: of the kinds that have them in their name; "" for all.
    """
    rng, equal = random.Random(seed), 0
    straight, kinds = {}, [name for name in KINDS if words in name]
    dataset = random_dataset(folder / "random-v0")
    for name in kinds:
        begin = time.monotonic()
        run = prepared(folder / f"straight-{len(straight)}")
        finish(child(run, begin=True, settings=of_kind(name, dataset), on_tick=steer))
        straight[name] = digest_of(run), time.monotonic() - begin
    for number in track(range(kills), "killing", disable=not sys.stderr.isatty()):
        name = kinds[number % len(kinds)]
        settings, (wanted, seconds) = of_kind(name, dataset), straight[name]
        run = killed(folder / "run", settings, rng, seconds)
        finish(child(run, begin=not begun(run), settings=settings, on_tick=steer))
        # After a resume actors that run freely deliver in another order, which is recorded.
        freely = settings.get("actor_pace") == "free"
        if replays(run) if freely else digest_of(run) == wanted:
            equal += 1
            shutil.rmtree(run)
        else:
            kept = run.rename(folder / f"different-{number}")
            print(f"kill {number} ({name}): another digest, see {kept}", file=sys.stderr)
    return equal


def of_kind(name, dataset):
    """The settings of a kind."""
    settings = {key: value for key, value in (SHORTER | KINDS[name]).items() if value is not None}
    return {key: str(dataset) if value == DATASET else value for key, value in settings.items()}


def prepared(run):
    """A directory in whose inbox are LETTERS."""
    files = ControlFiles(run)
    run.mkdir()
    files.make()
    for command_file in LETTERS:
        submit(files, command_file)
    return run


def killed(run, settings, rng, seconds):
    """A run that was killed while it was at work."""
    while True:
        prepared(run)
        at_call = rng.randrange(1, 250) if rng.random() < 0.5 else None
        process = child(run, begin=True, die_at=at_call, settings=settings, on_tick=steer)
        if at_call is None:
            time.sleep(rng.uniform(0, seconds))
            os.kill(process, signal.SIGKILL)
        if finish(process, allowed=(0, -signal.SIGKILL)):
            return run
        shutil.rmtree(run)  # it had come to its end before


def one_poll(folder, kills, seed=0):
    """Kills runs that have just answered commands of one poll; returns how many replay the same."""
    rng, identical = random.Random(seed), 0
    settings = SETTINGS | {"checkpoint_seconds": 1.0}
    for number in track(range(kills), "killing", disable=not sys.stderr.isatty()):
        run = folder / f"run-{number}"
        process = child(run, begin=True, settings=settings, on_tick=pausing(run))
        client = once_paused(run)
        client.set("tau", 0.7)
        client.do("snapshot")
        names = [*rng.sample(("snapshot", "sync", "evaluate", "rewind"), 1), "rewind"]
        rng.shuffle(names)
        names.insert(rng.randrange(1, 3), "checkpoint")
        # Stopped meanwhile, so that it finds all of them at once.
        os.kill(process, signal.SIGSTOP)
        commands = [do_command(name, "api") for name in names]
        client.send(commands)
        os.kill(process, signal.SIGCONT)
        wait_for_answers(run, {command.id for command in commands})
        time.sleep(rng.choice((0.0, 0.3, 0.5)))  # the checkpoint is on disk, or is not
        os.kill(process, signal.SIGKILL)
        assert finish(process, allowed=(-signal.SIGKILL,))
        finish(child(run, begin=False))
        identical += replays(run)
    return identical


def replays(run):
    """Says whether a replay of the run is identical."""
    return finish(in_a_fork(lambda: not replay_of(run)), allowed=(0, 1)) == 0


def pausing(run):
    """Has a run pause in its middle: so it is at work until it is killed, however fast it is."""

    def on_tick(agent, tick):
        if tick.env_step == 2_000:
            submit(ControlFiles(run), do_command("pause", "api"))

    return on_tick


def once_paused(run):
    """Waits until a run is paused, and returns a client for it."""
    while True:
        with contextlib.suppress(RunDirError):
            if read_state(ControlFiles(run))[0].status == "paused":
                return RunClient(run)
        time.sleep(0.05)


def wait_for_answers(run, ids):
    while not ids <= {entry.id for entry in read_log(ControlFiles(run).log) if entry.taken}:
        time.sleep(0.005)


def replay_of(run):
    from targetnet.agents.run.repeat import repeat

    return repeat(run).identical


def begun(run):
    return (run / "config.toml").exists()


def digest_of(run):
    return json.loads((run / "digest.json").read_text())["digest"]


def campaign(folder, kills, seed=0):
    """Kills a run at work `kills` times, however fast it is; asserts that nothing came of it.

    Returns how many runs came to their end, and how many processes there were in all.
    """
    rng = random.Random(seed)
    straight, run = folder / "straight", folder / "run"
    began = time.monotonic()
    finish(child(straight, begin=True))
    seconds = time.monotonic() - began
    wanted = json.loads((straight / "digest.json").read_text())
    hits, runs, processes = 0, 0, 0
    with Progress(disable=not sys.stderr.isatty()) as progress:
        shown = progress.add_task("killing", total=kills)
        while hits < kills:
            at_call = rng.randrange(1, 400) if rng.random() < 0.5 else None
            process = child(run, begin=not begun(run), die_at=at_call)
            processes += 1
            if at_call is None:
                time.sleep(rng.uniform(0, seconds))
                os.kill(process, signal.SIGKILL)
            if finish(process, allowed=(0, -signal.SIGKILL)):
                hits += 1
                progress.advance(shown)
            else:  # it came to its end before: once more from the beginning
                runs += 1
                compare(run, wanted)
                shutil.rmtree(run)
    finish(child(run, begin=not begun(run)))
    compare(run, wanted)
    return runs + 1, processes


def compare(run, wanted):
    got = json.loads((run / "digest.json").read_text())
    assert got == wanted, (got, wanted)
    left = [str(path) for path in run.rglob(".*")]
    assert left == [], left
    used = {
        name
        for manifest in run.glob("checkpoints/0*/manifest.json")
        for name in json.loads(manifest.read_text().split("\n")[0])["chunks"]
    }
    assert {path.name for path in (run / "checkpoints/rows").iterdir()} == used


def child(run, *, begin, die_at=None, settings=SETTINGS, on_tick=None):
    """Forks a process that begins or resumes the run; it may kill itself at a system call."""

    def work():
        from targetnet.agents.config.model import DqnConfig
        from targetnet.agents.run.train import resume, train

        if die_at:
            count_down(die_at)
        if begin:
            config = DqnConfig(**settings)
            train(config, run, on_tick=on_tick, ray="off" if config.loop == "remote" else None)
            return 0
        try:
            actors = settings.get("loop") == "remote"
            resume(run, on_tick=on_tick, ray="off" if actors else None)
        except RunDirError as error:
            # It was killed after its last word.
            if "is finished" not in str(error):
                raise
        return 0

    return in_a_fork(work)


def in_a_fork(work):
    """Forks a process that ends with what `work` returns."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        status = int(work())
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def count_down(left):
    """Kills this process at the left-th system call that changes something on disk."""

    def wrapped(real):
        def call(*arguments, **settings):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **settings)

        return call

    for name in CALLS:
        setattr(os, name, wrapped(getattr(os, name)))


def finish(process, allowed=(0,)):
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code in allowed, code
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--torture", action="store_true")
    parser.add_argument("--only", metavar="WORDS", default="", help="kinds of --torture with them")
    parser.add_argument("--one-poll", action="store_true")
    parser.add_argument("--folder", type=Path, help="kept; by default a temporary one")
    arguments = parser.parse_args()
    if not any(arguments.only in name for name in KINDS):
        parser.error(f"no kind has {arguments.only!r} in its name: {', '.join(KINDS)}")
    import targetnet.agents.run.train  # noqa: F401 - once, for all forks

    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        if arguments.torture:
            equal = torture(folder, arguments.kills, arguments.seed, arguments.only)
            print(f"{equal} of {arguments.kills} killed runs have the digest of the others")
            sys.exit(equal != arguments.kills)
        if arguments.one_poll:
            identical = one_poll(folder, arguments.kills, arguments.seed)
            print(f"{identical} of {arguments.kills} killed runs are replayed the same")
            sys.exit(identical != arguments.kills)
        runs, processes = campaign(folder, arguments.kills, arguments.seed)
    print(
        f"{arguments.kills} of {processes} processes were killed at work; "
        f"{runs} runs, each as if not killed"
    )


if __name__ == "__main__":
    main()
