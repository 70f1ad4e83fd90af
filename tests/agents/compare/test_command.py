"""`targetnet compare` as a user types it, with children that only say they trained."""

import json
import tomllib
from pathlib import Path

import pytest
import tyro
from rich.console import Console

from agents.compare.command import Compare
from agents.compare.plan import load_plan
from agents.compare.verify import NotTheSame
from rl_core.errors import ConfigError, RlCoreError

pytest.importorskip("matplotlib")


def compare(*arguments):
    arguments = [str(a) for a in ("periods.toml", "--jobs", 2, *arguments)]
    return tyro.cli(Compare, args=arguments)(Console(width=200))


def rows():
    return {
        str(path.relative_to("comparison/rows")): json.loads(path.read_text())
        for path in Path("comparison/rows").rglob("*.json")
    }


def table(page, title):
    """Cells of the first table after a title."""
    lines = page[page.index(title) :].split("\n\n")[1].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_arms_are_chosen_on_tuning_seeds_and_compared_on_fresh_ones(comparison, capsys):
    assert compare() == 0
    found = rows()
    assert sorted(found) == sorted(
        [f"{env}/{arm}.json" for env in ("CartPole", "Other")
         for arm in ("hard-10", "hard-100", "hard-1000", "other-20", "other-60", "alone")]
        + ["CartPole/soft-1.0.json", "CartPole/soft-0.1.json"]
    )  # fmt: skip
    # The baseline and what is chosen have tuning seeds; what was not chosen has no others.
    assert [*found["CartPole/hard-10.json"]["seeds"]] == ["0", "1", "5000", "5001", "5002"]
    assert [*found["CartPole/soft-1.0.json"]["seeds"]] == ["5000", "5001", "5002"]
    assert [*found["Other/other-20.json"]["seeds"]] == ["0", "1"]
    assert [*found["Other/other-60.json"]["seeds"]] == ["0", "1", "5000", "5001"]
    assert found["Other/hard-100.json"]["seeds"]["5001"]["digest"] == "5001-100"
    page = Path("comparison/page.md").read_text()
    assert page.startswith("# When?\n\nAn introduction.\n\nMade by\n\n```\ntargetnet compare")
    assert table(page, "## What was chosen") == [
        ["CartPole", "`hard-100`"],
        ["Other", "`hard-100`"],
    ]
    assert "| another | `sync_period` | `60` | `20, 60` |" in page
    # By the formula another period costs 100 for each decade, and seeds differ alike.
    (first, *_), (second, *_) = [row[1:] for row in table(page, "### Differences: final")]
    assert first == "-22.2 [-22.2, -22.2]" and second == "-130.1 [-130.1, -130.1]"
    assert [row[-2:] for row in table(page, "### Differences: final")] == [["0", "2"]] * 2
    assert "](page/CartPole-hard-soft.png)" in page and "](page/Other-hard.png)" in page
    assert Path("comparison/page/CartPole-hard-soft.png").read_bytes().startswith(b"\x89PNG")
    assert [row[:3] for row in table(page, "## What was trained")] == [
        ["CartPole", "31", "5000 to 5002"],
        ["Other", "20", "5000 to 5001"],
    ]
    assert "page: comparison/page.md" in capsys.readouterr().out


def test_fresh_seeds_choose_nothing(comparison):
    compare()
    path = Path("comparison/rows/CartPole/hard-10.json")
    kept = json.loads(path.read_text())
    for seed, of in kept["seeds"].items():
        if int(seed) >= 5000:
            of["mean"], of["curve"] = 10_000.0, [[1, 10_000.0]]
    path.write_text(json.dumps(kept))
    compare("--finished")
    page = Path("comparison/page.md").read_text()
    assert table(page, "## What was chosen")[0] == ["CartPole", "`hard-100`"]


def test_the_same_command_trains_nothing_again_and_writes_the_same_page(comparison):
    compare()
    page = Path("comparison/page.md").read_bytes()
    comparison(fail="yes")
    assert compare() == 0
    assert Path("comparison/page.md").read_bytes() == page


def test_what_is_missing_is_trained_in_the_directories_of_before(comparison):
    compare()
    before = sorted(Path("comparison/runs").iterdir())
    Path("comparison/rows/CartPole/soft-0.1.json").unlink()
    assert compare() == 0
    assert sorted(Path("comparison/runs").iterdir()) == before
    assert len(rows()["CartPole/soft-0.1.json"]["seeds"]) == 3


def test_a_population_has_runs_of_one_form(comparison):
    compare()
    for file in Path("comparison/runs").glob("*.toml"):
        members = tomllib.loads(file.read_text())["members"]
        assert 1 <= len(members) <= 4
        assert {*members[0]} <= {"seed", "sync_period", "tau"}


def test_a_run_that_failed_is_told_and_there_is_no_page(comparison, capsys):
    comparison(fail="yes")
    assert compare() == 1
    assert "the env fell over" in capsys.readouterr().out
    assert not Path("comparison/page.md").exists()


def test_a_page_of_what_is_finished_wants_all_of_it(comparison):
    with pytest.raises(RlCoreError, match=r"^20 runs are not finished"):
        compare("--finished")


def test_one_run_is_trained_again_and_compared(comparison, capsys):
    compare()
    assert compare("--verify", "CartPole/hard-100/5001") == 0
    assert "CartPole/hard-100/5001: identical 5001-100" in capsys.readouterr().out
    path = Path("comparison/rows/CartPole/hard-100.json")
    path.write_text(path.read_text().replace("5001-100", "5001-99"))
    with pytest.raises(NotTheSame, match="not the same: 5001-100, not 5001-99"):
        compare("--verify", "CartPole/hard-100/5001")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("CartPole/hard-100", "ENV/ARM/SEED"),
        ("Cartpole/hard-100/5000", "did you mean 'CartPole'"),
        ("CartPole/hard-101/5000", "there is no arm 'hard-101'"),
        ("CartPole/hard-100/7", "is not finished"),
    ],
)
def test_a_run_that_cannot_be_verified_is_one_line(comparison, wanted, said):
    with pytest.raises(RlCoreError, match=said):
        compare("--verify", wanted)


MISTAKES = [
    (("first = 0, count", "first = 999, count"), "tuning seeds are below 1,000"),
    (("first = 5000, count = 3", "first = 500, count = 3"), "fresh seeds are 1,000 or more"),
    (('baseline = "hard"', 'baseline = "hord"'), "there is no group 'hord'; did you mean 'hard'"),
    (('baseline = "hard"', 'baseline = "alone"'), "it has values"),
    (('without = ["soft"]', 'without = ["sof"]'), "there is no group 'sof'"),
    (("at = [1, 10]", "at = [1]"), "at has 1 numbers for 2 values"),
    (("[groups.other]", '[groups."a/b"]\nlabel = "x"\n[groups.other]'), "names files"),
    (("set = {sync_period = 5}", "set = {sync_perod = 5}"), "alone on CartPole.*sync_perod"),
    (("values = [10, 100, 1000]", "values = [0, 100, 1000]"), "hard-0 on CartPole.*sync_period"),
    (('config = "base.toml"', 'config = "bose.toml"'), "bose.toml"),
    (('label = "one alone"', ""), "label"),
    (
        (
            '[envs.Other]\nconfig = "base.toml"',
            '[envs.Other]\nconfig = "base.toml"\ntuning = {first = 1000, count = 1}',
        ),
        "tuning",
    ),
    (("together = 4", "together = 0"), "together"),
    (("together = 4", "together = "), "TOML"),
]


@pytest.mark.parametrize(("change", "said"), MISTAKES, ids=lambda of: str(of)[:40])
def test_a_mistake_in_the_file_is_one_line(comparison, change, said):
    path = comparison(change)
    with pytest.raises(ConfigError, match=said) as error:
        load_plan(path)
    assert "\n" not in str(error.value)


def test_rows_of_another_config_are_refused(comparison):
    compare()
    comparison(("set = {sync_period = 5}", "set = {sync_period = 6}"))
    with pytest.raises(RlCoreError, match=r"alone\.json is of another config: sync_period is 5"):
        compare()


@pytest.mark.parametrize(
    "damage", ["", "{", '{"seeds": 3}', "[" * 5_000], ids=["empty", "cut", "other", "deep"]
)
def test_a_damaged_row_is_one_line(comparison, damage):
    compare()
    path = Path("comparison/rows/Other/alone.json")
    path.write_text(damage)
    with pytest.raises(RlCoreError, match=r"alone\.json is damaged"):
        compare()
