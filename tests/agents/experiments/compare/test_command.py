"""`targetnet compare` as a user types it, with children that only say they trained."""

import contextlib
import io
import re
import shutil
import tomllib
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

import pytest
import tyro
from rich.console import Console

from targetnet.agents.config.files import load_config
from targetnet.agents.config.members import load_members
from targetnet.agents.experiments.compare.arms import ArmRuns
from targetnet.agents.experiments.compare.command import Compare
from targetnet.agents.experiments.compare.plan import ComparedArm, load_plan
from targetnet.agents.experiments.jobs import JobOutcome
from targetnet.agents.experiments.places import HERE
from targetnet.agents.experiments.store import (
    SIGNS,
    ResultStore,
    append_rows,
    read_rows,
    read_run,
)
from targetnet.agents.experiments.verify import NotTheSame
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import ControlLog, Entry
from targetnet.rl_core.errors import ConfigError, RlCoreError, RunDirError
from tests.agents.experiments.compare.conftest import comparison_in
from tests.agents.experiments.sweep.conftest import train

pytest.importorskip("matplotlib")


def compare(*arguments):
    arguments = [str(a) for a in ("periods.toml", "--jobs", 2, *arguments)]
    return tyro.cli(Compare, args=arguments)(Console(width=200))


@pytest.fixture(scope="module")
def finished_once(tmp_path_factory):
    """A directory with a whole comparison, pictures too, and what making it printed."""
    folder = tmp_path_factory.mktemp("finished")
    with comparison_in(folder, pictures=True), contextlib.redirect_stdout(io.StringIO()) as said:
        assert compare() == 0
    return folder, said.getvalue()


@pytest.fixture
def finished(finished_once, tmp_path):
    """The comparison was made already."""
    shutil.copytree(finished_once[0] / "comparison", tmp_path / "comparison")


ROWS = Path("comparison/rows.jsonl")


def rows():
    """The finished runs of each arm, by their seeds."""
    found = defaultdict(dict)
    for _, row in read_rows(ROWS):
        if "seed" in row:
            found[row["agent"]][row["seed"]] = row
    return found


def change_rows(change):
    """Changes each row of a seed, or leaves it out if None is returned; all get new seals."""
    lines = [row if "seed" not in row else change(row) for _, row in read_rows(ROWS)]
    ROWS.unlink()
    append_rows(ROWS, filter(None, lines))


def without(agent):
    return lambda row: None if row["agent"] == agent else row


def table(page, title):
    """Cells of the first table after a title."""
    lines = page[page.index(title) :].split("\n\n")[1].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.thorough
def test_arms_are_chosen_on_tuning_seeds_and_compared_on_fresh_ones(
    comparison, finished, finished_once
):
    found = rows()
    assert sorted(found) == sorted(
        [f"{env}/{arm}" for env in ("CartPole", "Other")
         for arm in ("hard-10", "hard-100", "hard-1000", "other-20", "other-60", "alone")]
        + ["CartPole/soft-1.0", "CartPole/soft-0.1"]
    )  # fmt: skip
    # The baseline and what is chosen have tuning seeds; what was not chosen has no others.
    assert sorted(found["CartPole/hard-10"]) == [0, 1, 5000, 5001, 5002]
    assert sorted(found["CartPole/soft-1.0"]) == [5000, 5001, 5002]
    assert sorted(found["Other/other-20"]) == [0, 1]
    assert sorted(found["Other/other-60"]) == [0, 1, 5000, 5001]
    assert found["Other/hard-100"][5001]["digest"] == "5001-100"
    page = Path("comparison/page.md").read_text()
    assert page.startswith("# When?\n\nAn introduction.\n\nMade by\n\n```\ntargetnet compare")
    assert table(page, "## Chosen on tuning seeds") == [
        ["CartPole", "`hard-100`", "`100` in 100%"],
        ["Other", "`hard-100`", "`100` in 100%"],
    ]
    assert "| another | `sync_period` | `60` | `60` in 100% | `20, 60` |" in page
    # By the formula another period costs 100 for each decade, and seeds differ alike.
    (first, *_), (second, *_) = [row[1:] for row in table(page, "Differences: final")]
    assert first == "**-22.2 [-22.2, -22.2]**" and second == "**-130.1 [-130.1, -130.1]**"
    assert [row[-2:] for row in table(page, "Differences: final")] == [["0", "2"]] * 2
    assert table(page, "Promised by tuning seeds")[0][0] == "another"
    assert "](page/CartPole-hard-soft.png)" in page and "](page/Other-hard.png)" in page
    assert Path("comparison/page/CartPole-hard-soft.png").read_bytes().startswith(b"\x89PNG")
    assert [row[:4] for row in table(page, "## What was trained")] == [
        ["CartPole", "31", "0 to 1", "5000 to 5002"],
        ["Other", "20", "0 to 1", "5000 to 5001"],
    ]
    assert f"tensorflow {version('tensorflow')}, " in page
    assert "page: comparison/page.md" in finished_once[1]


@pytest.mark.thorough
def test_fresh_seeds_choose_nothing(comparison, finished):

    def best(row):
        if row["agent"] != "CartPole/hard-10" or row["seed"] < 5000:
            return row
        return row | {"mean": 10_000.0, "curve": [[1_000, 10_000.0]]}

    change_rows(best)
    compare("--finished")
    page = Path("comparison/page.md").read_text()
    assert table(page, "## Chosen on tuning seeds")[0][:2] == ["CartPole", "`hard-100`"]


@pytest.mark.thorough
def test_the_page_says_what_the_curves_showed_in_the_second_quarter(comparison, finished):
    q_means = {5000: 2.0, 5001: 4.0, 5002: 9.0}

    def show(row, of=q_means.get):
        if row["agent"] == "CartPole/hard-10" and row["seed"] in q_means:
            row["signs"]["learn/q_mean"] = [100.0, of(row["seed"]), None, 1e9]
        return row

    change_rows(show)
    compare("--finished")
    page = Path("comparison/page.md").read_text()
    shown = table(page, "### What the curves show on CartPole")
    # Of groups that have a chosen arm it is that one.
    assert [row[0] for row in shown] == ["`hard-10`", "`hard-100`", "`hard-1000`", "`other-60`"]
    q_mean = 1 + SIGNS.index("learn/q_mean")
    assert shown[0][q_mean] == "5" and shown[1][q_mean] == "-"
    change_rows(lambda row: show(row, {5000: 2.0, 5002: 9.0}.get))
    compare("--finished")
    page = Path("comparison/page.md").read_text()
    # The mean of some seeds is no mean of all.
    assert table(page, "### What the curves show on CartPole")[0][q_mean] == "-"


@pytest.mark.thorough
def test_the_same_command_trains_nothing_again_and_writes_the_same_page(comparison, finished):
    page = Path("comparison/page.md").read_bytes()
    comparison(fail="all")
    assert compare() == 0
    assert Path("comparison/page.md").read_bytes() == page
    # Nor where the rows of an arm were lost: the runs are still there, and have ended.
    comparison()
    before = rows()
    change_rows(without("CartPole/soft-0.1"))
    assert compare() == 0
    assert rows() == before


@pytest.mark.thorough
def test_an_interrupted_comparison_goes_on_in_the_same_directories(comparison):
    comparison(fail="all")
    compare()
    before = sorted(of.name for of in Path("comparison/runs").glob("*.toml"))
    comparison()
    compare()
    # All of the tuning runs; the fresh ones had not begun.
    assert before and {*before} < {of.name for of in Path("comparison/runs").glob("*.toml")}


@pytest.mark.thorough
def test_only_what_is_missing_is_trained(comparison, finished):
    before = {*Path("comparison/runs").glob("*.toml")}
    change_rows(without("CartPole/soft-0.1"))
    for run in Path("comparison/runs").glob("*/"):
        shutil.rmtree(run)
    comparison(("seeds = {first = 5000, count = 3}", "seeds = {first = 5000, count = 4}"))
    assert compare() == 0
    new = [members_of(of) for of in {*Path("comparison/runs").glob("*.toml")} - before]
    # Three seeds of soft-0.1, and the fourth of the seven arms that have fresh ones.
    assert sorted(seed for of in new for seed in of) == [5000, 5001, 5002] + [5003] * 7
    assert len(rows()["CartPole/soft-0.1"]) == 4


def members_of(file):
    """The seeds of a population."""
    return [of["seed"] for of in tomllib.loads(file.read_text())["members"]]


@pytest.mark.thorough
def test_a_population_has_runs_of_one_form(comparison, finished):
    files, differ = [*Path("comparison/runs").glob("*.toml")], []
    for file in files:
        members = tomllib.loads(file.read_text())["members"]
        assert 1 <= len(members) <= 4
        differ.append({key for of in members for key in of} - {"seed"})
    # Members may differ in live values and in nothing else.
    assert files and set.union(*differ) == {"sync_period", "tau"}


@pytest.mark.thorough
def test_arms_that_are_alike_have_their_runs_in_common(comparison):
    """One period for all envs is a hard copy like others; no population has two members alike."""
    comparison(("values = [20, 60]", "values = [100, 60]"), ("set = {double = false}", ""))
    assert compare() == 0
    found = rows()
    assert "CartPole/other-100" not in found and "Other/other-60" in found
    trained = [seed for file in Path("comparison/runs").glob("*.toml") for seed in members_of(file)]
    assert len(trained) == sum(map(len, found.values()))  # nothing twice
    assert sorted(found["CartPole/hard-100"]) == [0, 1, 5000, 5001, 5002]
    page = Path("comparison/page.md").read_text()
    differences = table(page, "Differences: final")
    assert differences[0] == ["another", "the same runs", "the same runs", "0", "0"]
    # 3 + 1 arms with 2 tuning seeds; of hard, soft and alone, 3 + 2 + 1 arms with fresh ones.
    assert table(page, "## What was trained")[0][:2] == ["CartPole", str(4 * 2 + 6 * 3)]
    assert compare("--verify", "CartPole/other-100/5001") == 0


@pytest.mark.thorough
def test_two_processes_at_once_are_one_too_many(comparison):
    with (
        ResultStore(ROWS).held(),
        pytest.raises(RlCoreError, match=r"another process adds finished runs to comparison/rows"),
    ):
        compare("--out", "elsewhere", "--rows", ROWS)
    assert compare() == 0


@pytest.mark.thorough
def test_a_run_that_failed_is_told_and_there_is_no_page(comparison, capsys):
    comparison(fail="all")
    assert compare() == 1
    assert "the env fell over" in capsys.readouterr().out
    assert not Path("comparison/page.md").exists()


@pytest.mark.thorough
def test_one_member_that_failed_takes_nothing_from_the_others(comparison, capsys):
    comparison(fail="1")
    assert compare() == 1
    assert "has diverged" in capsys.readouterr().out
    assert {seed for of in rows().values() for seed in of} == {0}
    before = tuning_populations()
    comparison()
    assert compare() == 0
    assert tuning_populations() == before  # it went on with the others, in their directories


def tuning_populations():
    files = Path("comparison/runs").glob("*.toml")
    return {of.name for of in files if min(members_of(of)) < 1_000}


@pytest.mark.thorough
def test_the_way_that_had_as_much_tuning_is_compared_with_besides(comparison):
    comparison(('differences = ["other", "alone"]', 'differences = ["alone"]\nagainst = "other"'))
    assert compare() == 0
    page = Path("comparison/page.md").read_text()
    # A period of 5 beside 60, by the formula.
    assert table(page, "Differences from <code>other-60</code>: final")[0][1:] == [
        "**-107.9 [-107.9, -107.9]**", "**-107.9 [-107.9, -107.9]**", "0", "2",
    ]  # fmt: skip


@pytest.mark.thorough
def test_quarters_and_the_best_of_all_constants_are_on_the_page(comparison):
    """Another's 60 is further from the best period of the formula than hard's 100."""
    comparison(
        ('baseline = "hard"', 'baseline = "hard"\nconstants = ["other"]'),
        ('signs = ["hard", "other"]', 'quarters = ["hard"]'),
    )
    assert compare() == 0
    page = Path("comparison/page.md").read_text()
    assert "*All constants* are the arms of `hard`, `other`." in page
    assert table(page, "## Chosen on tuning seeds")[0][-1] == "`hard-100`"
    same = table(page, "Differences from the best of all constants: area")
    assert same == table(page, "### Differences: area")
    # The formula's curve is a straight line from a quarter of the final return on.
    numbers = [cell.split()[0] for cell in table(page, "### Quarter by quarter on Other")[0][1:]]
    assert [float(of.replace(",", "")) for of in numbers] == sorted(map(float, numbers))


def test_without_scipy_that_is_one_line_before_anything_is_trained(comparison, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "scipy" else name)
    with pytest.raises(RlCoreError, match=r"pip install 'targetnet\[plots\]'"):
        compare()
    assert not Path("comparison").exists()


def test_a_config_that_changes_meanwhile_changes_no_run(comparison):
    loaded = load_plan(Path("periods.toml"))
    Path("base.toml").write_text('base = "cartpole"\nsync_period = 51\n')
    of = loaded.config("CartPole", ComparedArm("alone", 0), 5000)
    assert (of.env_steps, of.seed, of.sync_period) == (1_000, 5000, 5)


def kept_and_run(tmp_path, **changes):
    config = load_config("cartpole", ["env_steps=1000"])
    train(tmp_path / "run", config.model_copy(update=changes))
    return ArmRuns(ResultStore(tmp_path / "kept.jsonl"), "arm", config)


@pytest.mark.parametrize("changes", [{"discount": 0.5}, {"env_steps": 2_000}, {"seed": 8}])
def test_a_run_of_another_config_is_not_kept(tmp_path, changes):
    kept = kept_and_run(tmp_path, **({"seed": 7} | changes))
    with pytest.raises(RlCoreError, match="run is of another config"):
        kept.add({7: tmp_path / "run"})
    assert not kept.seeds and not (tmp_path / "kept.jsonl").exists()


@pytest.mark.parametrize(
    ("who", "is_kept"), [("controller", True), ("schedule", True), ("cli", False)]
)
def test_a_run_that_a_person_has_steered_is_not_kept(tmp_path, who, is_kept):
    kept = kept_and_run(tmp_path, seed=7)
    (tmp_path / "run" / "control").mkdir(exist_ok=True)
    with contextlib.closing(ControlLog(ControlFiles(tmp_path / "run").log)) as log:
        log.append(
            [
                Entry(
                    id="1", asked=0, time=0, who=who, kind="set", name="sync_period", value=3,
                    old=500, new=3, tick=9, env_step=9, update=4,
                )
            ]
        )  # fmt: skip
    if is_kept:
        kept.add({7: tmp_path / "run"})
        assert [*kept.seeds] == [7]
        return
    with pytest.raises(RlCoreError, match=r"was steered \(sync_period 500 -> 3 at update 4"):
        kept.add({7: tmp_path / "run"})


@pytest.mark.parametrize("name", ["pause", "resume", "checkpoint", "stop"])
def test_a_run_that_was_paused_or_stopped_has_the_same_bits_and_is_kept(tmp_path, name):
    kept = kept_and_run(tmp_path, seed=7)
    (tmp_path / "run" / "control").mkdir(exist_ok=True)
    with contextlib.closing(ControlLog(ControlFiles(tmp_path / "run").log)) as log:
        log.append([Entry(id="1", asked=0, time=0, who="cli", kind="do", name=name, tick=9,
                          env_step=9, update=4)])  # fmt: skip
    kept.add({7: tmp_path / "run"})
    assert [*kept.seeds] == [7]


@pytest.mark.slow
def test_a_population_of_what_was_left_goes_on_in_its_directory_too(comparison, finished):
    """A fourth seed comes in a population of its own; another run of it is finished meanwhile."""
    more = ("seeds = {first = 5000, count = 3}", "seeds = {first = 5000, count = 4}")
    comparison(more, fail="all")
    compare()
    runs = Path("comparison/runs")
    begun = {of for of in runs.glob("*.toml") if 5003 in members_of(of)}
    for file in begun:  # as a process leaves it that was killed
        file.with_suffix("").mkdir(exist_ok=True)
    first = max(begun, key=lambda of: len(members_of(of)))
    name, config = next(iter(load_members(first).configs.items()))
    train(first.with_suffix("") / name, config)
    comparison(more, fail="all")
    compare()  # keeps what is finished
    comparison(more)
    assert compare() == 0
    assert {of for of in runs.glob("*.toml") if 5003 in members_of(of)} == begun


def test_a_page_of_what_is_finished_wants_all_of_it(comparison):
    with pytest.raises(RlCoreError, match=r"^20 runs are not finished"):
        compare("--finished")


@pytest.mark.thorough
def test_one_run_is_trained_again_and_compared(comparison, finished, capsys):
    assert compare("--verify", "CartPole/hard-100/5001") == 0
    assert "CartPole/hard-100/5001: identical 5001-100" in capsys.readouterr().out
    assert not [*Path("comparison").glob("verify*")]
    other = ("CartPole/hard-100", 5001)
    change_rows(
        lambda row: row | {"digest": "5001-99"} if (row["agent"], row["seed"]) == other else row
    )
    with pytest.raises(NotTheSame, match="not the same: 5001-100, not 5001-99"):
        compare("--verify", "CartPole/hard-100/5001")


def test_with_a_cluster_a_run_is_trained_again_there(comparison, monkeypatch):
    """It was trained on this machine, whatever --ray said."""
    loaded = load_plan(Path("periods.toml"))
    config = loaded.config("CartPole", ComparedArm("hard", 1), 5_001)
    train(Path("run"), config)
    ResultStore(ROWS).add(read_run(Path("run"), "CartPole/hard-100", config))
    monkeypatch.setattr(
        "targetnet.agents.experiments.compare.command.place_for",
        lambda ray, jobs, configs, say: contextlib.nullcontext((f"cluster {ray}", jobs)),
    )
    trained = []

    def train_again(runs, directory, at_once, console, say, place=HERE):
        trained.extend((run.name, place) for run in runs)
        return JobOutcome()

    monkeypatch.setattr("targetnet.agents.experiments.verify.train_again", train_again)
    assert compare("--verify", "CartPole/hard-100/5001", "--ray", "auto") == 0
    assert trained == [("CartPole/hard-100/5001", "cluster auto")]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("CartPole/hard-100", "ENV/ARM/SEED"),
        (f"CartPole/hard-100/{'5' * 5_000}", "ENV/ARM/SEED"),
        ("Cartpole/hard-100/5000", "did you mean 'CartPole'"),
        ("CartPole/hard-101/5000", "there is no arm 'hard-101'"),
        ("CartPole/hard-100/7", "is not finished"),
    ],
)
def test_a_run_that_cannot_be_verified_is_one_line(comparison, wanted, said):
    with pytest.raises(RlCoreError, match=said):
        compare("--verify", wanted)


MISTAKES = [
    (("first = 0, count", "first = 999, count"), "tuning seeds must be below 1,000, got 1,0"),
    (("first = 5000, count = 3", "first = 500, count = 3"), "fresh seeds are 1,000 or more"),
    (('baseline = "hard"', 'baseline = "hord"'), "there is no group 'hord'; did you mean 'hard'"),
    (('baseline = "hard"', 'baseline = "alone"'), "must name a group with values"),
    (('without = ["soft"]', 'without = ["sof"]'), "there is no group 'sof'"),
    (("at = [1, 10]", "at = [1]"), "at has 1 numbers for 2 values"),
    (("at = [1, 10]", "at = [0, 10]"), "soft cannot be drawn"),
    (('curves = ["hard", "soft"]', 'curves = ["hard", "other"]'), "other cannot be drawn"),
    (('["other", "alone"]', '["hard", "alone"]'), "hard has several arms"),
    (('["other", "alone"]', '["other"]\nagainst = "hard"'), "hard has several arms"),
    (('["other", "alone"]', '["other"]\nagainst = "aline"'), "there is no group 'aline'"),
    (('axis = "period"\n', ""), "are over sync_period and tau: axis must say"),
    (("set = {sync_period = 5}", "set = {seed = 5}"), "alone sets the seed"),
    (("set = {sync_period = 5}", 'set = {loop = "remote"}'), "alone on CartPole: loop = 'remote'"),
    (("[groups.other]", f'[groups.{"a" * 81}]\nlabel = "x"\n[groups.other]'), "at most 80"),
    (('config = "base.toml"', f'config = "{"b" * 300}.toml"'), "File name too long"),
    (('without = ["soft"]', 'without = ["hard"]'), "Other is without the baseline"),
    (('without = ["soft"]', 'without = ["other"]\nheld_out = true'), None),
    (("[envs.Other]", 'without = ["other"]\n[envs.Other]\nheld_out = true'), "cannot be chosen"),
    (
        ("[groups.alone]", '[groups.hard-10]\nlabel = "x"\n[groups.alone]'),
        "two arms are called 'hard-10'",
    ),
    (("[groups.other]", '[groups."a/b"]\nlabel = "x"\n[groups.other]'), "names files"),
    (("[groups.other]", f'[groups."{"é" * 41}"]\nlabel = "x"\n[groups.other]'), "names files"),
    (("set = {sync_period = 5}", "set = {sync_perod = 5}"), "alone on CartPole.*sync_perod"),
    (
        ("values = [10, 100, 1000]", "values = [0.5, 100, 1000]"),
        r"hard-0\.5 on CartPole.*sync_period",
    ),
    (('config = "base.toml"', 'config = "bose.toml"'), "bose.toml"),
    (('label = "one alone"', ""), "label"),
    (
        (
            '[envs.Other]\nconfig = "base.toml"',
            '[envs.Other]\nconfig = "base.toml"\ntuning = {first = 1000, count = 1}',
        ),
        "tuning",
    ),
    (('baseline = "hard"', 'baseline = "hard"\nconstants = ["othr"]'), "there is no group 'othr'"),
    (
        ('baseline = "hard"', 'baseline = "hard"\nconstants = ["soft"]'),
        "soft has no tuning seeds; set choose = true",
    ),
    (("together = 4", "together = 0"), "together"),
    (("together = 4", "together = "), "TOML"),
]


@pytest.mark.parametrize(("change", "said"), MISTAKES, ids=lambda of: str(of)[:40])
def test_a_mistake_in_the_file_is_one_line(comparison, change, said):
    path = comparison(change)
    if said is None:
        load_plan(path)
        return
    with pytest.raises(ConfigError, match=said) as error:
        load_plan(path)
    assert "\n" not in str(error.value)


@pytest.mark.thorough
def test_rows_of_another_config_are_refused(comparison, finished):
    comparison(("set = {sync_period = 5}", "set = {sync_period = 6}"))
    with pytest.raises(RlCoreError, match=r"CartPole/alone is of another config: sync_period is 5"):
        compare()


@pytest.mark.thorough
def test_a_row_that_was_changed_by_hand_is_refused(comparison, finished):
    data = ROWS.read_bytes()
    ROWS.write_bytes(re.sub(rb'"mean": [-\d]', b'"mean": 9', data, count=1))
    with pytest.raises(RunDirError, match=r"line 2: it is damaged: .* Delete the line to train"):
        compare("--finished")
    ROWS.write_bytes(re.sub(rb', "seal": "\w+"\}$', b"}", data, count=1, flags=re.MULTILINE))
    with pytest.raises(RunDirError, match=r"line 1: it has no seal.* Delete the line to train it"):
        compare("--finished")
    lines = data.splitlines(keepends=True)
    ROWS.write_bytes(b"".join(lines[:1] + lines[2:]))
    before = rows()
    assert compare() == 0 and ROWS.read_bytes() != data
    assert sum(map(len, rows().values())) == 1 + sum(map(len, before.values()))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mean", float("nan")), ("env_steps", 10**400), ("env_steps", 999), ("curve", []),
        ("curve", [[1_000, float("inf")]]), ("curve", [[500, 1.0], [500, 2.0], [1_000, 3.0]]),
        ("updates", -1),
    ],
)  # fmt: skip
def test_numbers_that_no_run_has_are_damage(comparison, finished, key, value):
    change_rows(lambda row: row | {key: value} if row["agent"] == "Other/alone" else row)
    with pytest.raises(RlCoreError, match=r"cannot use comparison/rows\.jsonl: .*it is damaged"):
        compare("--finished")


@pytest.mark.thorough
def test_each_seed_keeps_the_versions_that_made_it(comparison, finished):

    def older(row):
        if row["agent"] != "CartPole/alone":
            return row
        row["versions"]["tensorflow"] = "2.99.0"
        return None if row["seed"] == 5001 else row

    change_rows(older)
    assert compare() == 0
    kept = rows()["CartPole/alone"]
    assert {n: of["versions"]["tensorflow"] for n, of in kept.items()} == {
        5000: "2.99.0", 5001: version("tensorflow"), 5002: "2.99.0",
    }  # fmt: skip
    assert "tensorflow 2.99.0" in Path("comparison/page.md").read_text()
