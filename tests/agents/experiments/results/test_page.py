"""The page, the JSON and the pictures of results made by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from targetnet.agents.experiments.report import require_matplotlib
from targetnet.agents.experiments.results.page import as_markdown, draw, file_name
from targetnet.agents.experiments.results.table import Origin, as_json, by_env, summarize
from targetnet.rl_core.errors import RlCoreError

SNAPSHOT = Path(__file__).with_name("page.md")
MADE = Origin("targetnet results cartpole --seeds 4", 2, 4, {"python": "3.11.7", "numpy": "2.4.6"})
ABOUT = {
    "versions": {"stable_baselines3": "2.9.2", "torch": "2.13.0"},
    "settings": {"learning_rate": 0.0023, "gradient_steps": -1, "net_arch": [256, 256]},
    "source": "https://example.org/dqn.yml",
    "date": "2026-01-30",
}
OURS = {"settings": {"hidden": [64, 64], "double": True}, "versions": ABOUT["versions"]}


def with_(run, **changes):
    return run.model_copy(update=changes)


@pytest.fixture
def summaries(row):
    peer = row("SB3 DQN", [90.0, 110.0], peer=True, **ABOUT)
    peer.seeds[1] = with_(peer.seeds[1], date="2026-01-31")
    return [
        summarize(peer),
        summarize(row(**OURS)),
        summarize(row("lander", [-20.5], "LunarLander-v3")),
    ]


@pytest.fixture
def page(summaries):
    pictures = {"CartPole-v1": "results/a.png", "LunarLander-v3": "results/b.png"}
    return as_markdown(summaries, MADE, pictures, training=True)


def test_the_page_is_the_one_that_was_looked_at(page):
    assert page == SNAPSHOT.read_text()


def test_the_numbers_of_a_row_are_those_of_its_seeds(row):
    summary = summarize(row(means=[100.0, 200.0, 300.0, 800.0]))
    assert summary.mean.value == 350  # 1,400 / 4
    assert summary.iqm.value == 250  # (200 + 300) / 2
    assert (summary.worst.seed, summary.best.seed) == (0, 3)
    assert summary.seconds == 61.5  # between 61 and 62
    assert summary.training.value == 340  # each 10 less
    # At env step 500 every seed is half way.
    assert [(step, point.value) for step, point in summary.curve] == [(500, 125), (1_000, 250)]
    assert summary.mean.interval.low >= 100 and summary.mean.interval.high <= 800


def test_one_seed_has_no_interval(row):
    assert summarize(row(means=[7.0])).mean.interval is None


def test_ours_come_before_the_peer(summaries):
    envs = by_env(summaries)
    assert [s.row.name for s in envs["CartPole-v1"]] == ["cartpole", "SB3 DQN"]
    assert list(envs) == ["CartPole-v1", "LunarLander-v3"]


def test_the_page_says_how_many_episodes_were_cut_off(row):
    seeds = row()
    cut = [with_(seed, cut=2) if seed.seed < 2 else seed for seed in seeds.seeds]
    page = as_markdown([summarize(replace(seeds, seeds=cut))], MADE, {"CartPole-v1": "a.png"})
    assert "4 greedy episodes of `cartpole` were cut off at `eval_max_steps`" in page


def test_the_training_returns_on_the_way_are_the_means_over_seeds(row):
    two = row(means=(100.0, 200.0))
    curve = {250_000 * n: 5.0 * n for n in range(1, 25)}  # more points than a page has room for
    curves = curve, {step: 3 * value for step, value in curve.items()}
    seeds = [
        with_(of, training_curve=[*c.items()]) for of, c in zip(two.seeds, curves, strict=True)
    ]
    made = [summarize(replace(two, seeds=seeds)), summarize(row("without", (7.0,)))]
    page = as_markdown(made, MADE, {"CartPole-v1": "a.png"}, training=True)
    steps = "750,000 | 1,500,000 | 2,250,000 | 3,000,000 | 3,750,000 | 4,500,000 | 5,250,000 "
    assert f"| training return up to env step | {steps}| 6,000,000 |\n" in page
    assert "| `cartpole` | 30.0 | 60.0 | 90.0 | 120.0 | 150.0 | 180.0 | 210.0 | 240.0 |\n" in page
    assert page.count("| `without` |") == 2  # in the tables of scores and of every seed
    assert "*Training return up to*" in page


def test_the_json_has_what_the_page_has_and_every_seed(summaries):
    table = as_json(summaries, MADE)
    assert table["made"]["command"] == MADE.command
    peer, ours, _ = table["rows"]
    assert ours["iqm"]["value"] == 250 and ours["worst"] == {"seed": 0, "mean": 100.0}
    assert [seed["mean"] for seed in ours["seeds"]] == [100, 200, 300, 400]
    assert peer["peer"] and peer["source"] == ABOUT["source"]
    assert table["rows"][2]["mean"] == {"value": -20.5, "low": None, "high": None}


def test_an_env_id_with_a_slash_still_names_a_file():
    assert file_name("MinAtar/Breakout-v1") == "MinAtar-Breakout-v1"


def test_the_same_results_give_the_same_pictures(tmp_path, summaries):
    pytest.importorskip("matplotlib")
    first = draw("MinAtar/Breakout-v1", summaries[:2], tmp_path / "first")
    second = draw("MinAtar/Breakout-v1", summaries[:2], tmp_path / "second")
    assert [path.name for path in first] == ["MinAtar-Breakout-v1.png", "MinAtar-Breakout-v1.svg"]
    assert [a.read_bytes() for a in first] == [b.read_bytes() for b in second]


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RlCoreError, match=r"pip install 'targetnet\[plots\]'"):
        require_matplotlib()
