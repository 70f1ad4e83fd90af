"""Training returns on Atari's games beside those that Dopamine has published; trains nothing.

    python docs/atari/beside_dopamine.py docs/rows/learning.jsonl > docs/results/atari.md

Our seeds are rows of `targetnet results`. Dopamine's figures, dopamine.json beside this file, are
the mean training return of each of five runs in its first, second and third million frames.
"""

import json
import sys
from pathlib import Path
from statistics import fmean

from targetnet.agents.experiments.report import markdown_table
from targetnet.agents.experiments.store import ResultStore

HERE = Path(__file__).parent
FRAMES = 4  # of an env step
GAMES = "Pong", "Freeway", "Breakout"
OURS = {"atari-qrdqn": "ours, QR-DQN", "atari-qrdqn-weighted": "ours, weighted and clipped"}

HEAD = """\
# Atari's games beside Dopamine's curves

What weights and clipping cost was seen on this seed of Pong and Freeway. On Pong ours is ahead of
all of Dopamine's DQN but the best, and of all of its Rainbow, and behind all five of its QR-DQN. On
Freeway it is ahead of all of both, and behind the four of its QR-DQN that learned (26.2 to 27.0);
the fifth never left 0, so one seed says little there. On Breakout, which was run with the config as
it is now alone, it is ahead of all of both, and among the five of its QR-DQN.
[At the end](#how-it-was-made) the rows are explained.
"""
METHOD = """\
## How it was made

Made by

```
{commands}
python docs/atari/beside_dopamine.py docs/rows/learning.jsonl > docs/results/atari.md
```

QR-DQN with Dopamine's values (`configs/atari-qrdqn.toml` names what differs) by the protocol of
[Machado et al. (2018)](https://arxiv.org/abs/1709.06009): sticky actions, no end at a lost life,
rewards unclipped in every figure here. `atari-dqn` and `atari-rainbow` were not run.
Ours has the network of Mnih et al., whose convolutions do not pad; those of Dopamine do. First
weights and Adam's form differ too. *Weighted and clipped* is
the config as it was at first: importance weights of 0.5, and gradients clipped at a norm of 10.
Dopamine's agent computes such weights too, but after its step, and clips nothing, so the config has
neither now. Beside it is what [Dopamine]({source}) has published of
five runs of each agent (`{files}`).

Both sides are **training returns**: the mean of the episodes that ended within a million frames
(250,000 env steps), exploration included. Dopamine's are the mean of five runs, with the least and
the most. The column *greedy* is our agent afterwards, without exploration, in ten episodes.
Dopamine publishes no such figure. The *hours* are those of a process on one core, beside others
and tests for a part of them. No value was tuned on these seeds. But it was the first runs,
*weighted and clipped*, that made us read Dopamine's code again and take its values as they act.
"""


def rows_of(config, game, store):
    """Our finished seeds of a config and a game, in order."""
    runs = store.runs(f"{config}-{game.lower()}")
    return [{"ours": OURS[config], **runs[seed].model_dump()} for seed in sorted(runs)]


def table(game, seeds, published):
    """Training returns of each million frames: a line for each seed of ours, then the peer's."""
    returns = [dict(map(tuple, of["training_curve"])) for of in seeds]
    reached = sorted({step for of in returns for step in of})
    frames = published["frames"][: len(reached)]
    if [FRAMES * step for step in reached] != frames:
        raise SystemExit(f"{game}: curves at {reached}, wanted points at {frames} frames")
    head = ["", *(f"{n:,} frames" for n in frames), "greedy", "least", "most", "hours"]
    lines = [
        [
            f"{of['ours']}, seed {of['seed']}",
            *(f"{curve[step]:.1f}" if step in curve else "-" for step in reached),
            *(f"{of[key]:.1f}" for key in ("mean", "low", "high")),
            f"{of['seconds'] / 3600:.1f}",
        ]
        for of, curve in zip(seeds, returns, strict=True)
    ]
    for agent, curves in published["training_returns"][game].items():
        cells = [f"{fmean(of):.1f} ({min(of):.1f} to {max(of):.1f})" for of in curves]
        lines.append([f"Dopamine, {agent}", *cells[: len(frames)], *["-"] * 4])
    return markdown_table(head, lines)


def made_on(seeds):
    """Processors and versions of the seeds, in a sentence."""
    processors = sorted({of["processor"] for of in seeds})
    dates = sorted({of["date"] for of in seeds})
    versions = ", ".join(f"{name} {version}" for name, version in seeds[0]["versions"].items())
    return f"On one core of {' and of '.join(processors)}, {' and '.join(dates)}; {versions}."


def main(rows):
    """Prints the page."""
    published = json.loads((HERE / "dopamine.json").read_text())
    store = ResultStore(rows)
    found = {(game, config): rows_of(config, game, store) for game in GAMES for config in OURS}
    commands = "\n".join(
        f"targetnet results docs/atari/{config}-{game.lower()}.toml --seeds {len(seeds)}"
        f" --first-seed {seeds[0]['seed']} --rows docs/rows/learning.jsonl --training"
        for (game, config), seeds in found.items()
        if seeds
    )
    print(HEAD)
    of_game = {game: [of for config in OURS for of in found[game, config]] for game in GAMES}
    for game, seeds in of_game.items():
        if seeds:
            print(f"## {game}\n\n{table(game, seeds, published)}\n\n{made_on(seeds)}\n")
    missing = [game for game, seeds in of_game.items() if not seeds]
    if missing:
        print(f"Not trained: {', '.join(missing)}.\n")
    of_peer = {name: published[name] for name in ("source", "files")}
    print(METHOD.format(commands=commands, **of_peer), end="")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
