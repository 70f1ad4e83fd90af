"""The tab with all members of a population, in a real browser."""

import json
import shutil
import time

import pytest

from targetnet.rl_core.control.client import RunClient
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import read_log
from tests.rl_core.board.steer.tab import Tab, called, until

PERIOD = "form[data-name=sync_period]"


@pytest.fixture(scope="module")
def crowd(start_population):
    """Two plain members, one that refuses every command, one that has ended."""
    with start_population("crowd", "m00", "m01", "m02:repeats", "m03:ended") as path:
        yield path


@pytest.fixture
def tab(browser, board, crowd):
    return all_members(Tab(browser, board), "crowd")


def all_members(tab, population):
    until(lambda: tab.one(f'#run option[data-population="{population}"]').click() is None)
    until(lambda: tab.all(".members tbody tr") and tab.all("form.knob"))
    return tab


def log(population, member):
    return read_log(ControlFiles(population / member).log)


def answer(tab, member):
    return tab.text(f".members tr[data-member={member}] .answers")


def answered(tab, *members):
    """Waits until none of these members is pending, and returns their answers."""
    until(lambda: all(answer(tab, m) and "pending" not in answer(tab, m) for m in members))
    return [answer(tab, member) for member in members]


def ready(tab, css="[data-action=sync]"):
    return until(lambda: tab.one(css).is_enabled() and tab.one(css))


@pytest.mark.thorough
def test_all_members_are_a_choice_beside_each_and_are_listed(tab, crowd):
    from selenium.webdriver.support.ui import Select

    texts = [option.text for option in Select(tab.one("#run")).options]
    whole = texts.index("crowd: all 4 members (3 at work)")
    assert any(text.startswith("crowd/m0") for text in texts[whole + 1 :])
    assert not any(text.startswith("crowd/m0") for text in texts[:whole])
    rows = tab.all(".members tbody tr")
    assert [row.get_attribute("data-member") for row in rows] == ["m00", "m01", "m02", "m03"]
    assert [cell.text for cell in tab.all(".members .status")] == ["running"] * 3 + ["finished"]
    assert tab.text("header .status") == "3 running, 1 finished"
    assert "To all 3 members at work:" in tab.text(".actions")


@pytest.mark.thorough
def test_a_change_lands_once_on_each_member_and_every_answer_is_listed(tab, crowd):
    before = {member: len(log(crowd, member)) for member in ("m00", "m01", "m02", "m03")}
    tab.write("sync_period", "41\n")
    first, second, refused = answered(tab, "m00", "m01", "m02")
    new = {member: log(crowd, member)[n:] for member, n in before.items()}
    assert {member: len(entries) for member, entries in new.items()} == {
        "m00": 1, "m01": 1, "m02": 1, "m03": 0,
    }  # fmt: skip
    assert (first, second) == (new["m00"][0].describe(), new["m01"][0].describe())
    assert "this run repeats another one" in refused
    assert answer(tab, "m03") == "not running: finished"
    note = until(lambda: tab.all(f"{PERIOD} .note.refused"))[0].text
    assert note.startswith("applied by 2 of 3 members; 1 did not: changes are refused")
    assert (new["m00"][0].who, new["m00"][0].new) == ("board", 41)


@pytest.mark.thorough
def test_where_members_differ_the_page_shows_a_range_and_leaves_the_field_empty(tab, crowd):
    until(lambda: tab.knob("exempt", ".now").text == "none")
    RunClient(crowd / "m00").set("sync_period", 25)
    RunClient(crowd / "m01").set("sync_period", 100)
    RunClient(crowd / "m00").set("exempt", ["head"])
    RunClient(crowd / "m01").set("exempt", [])
    each = "m00: 25, m01: 100, m02: 500"
    until(lambda: each in tab.knob("sync_period", ".now").get_attribute("title"))
    assert tab.knob("sync_period", ".now").text == "25 to 500"
    assert tab.knob("sync_period", ".badge").text == "config, override"
    field = tab.knob("sync_period", "input[type=text]")
    assert (field.get_attribute("value"), field.get_attribute("placeholder")) == ("", "differs")
    assert tab.knob("sync_period", ".apply").text == "Apply to 3"
    assert not tab.knob("sync_period", ".apply").is_enabled()
    until(lambda: tab.knob("exempt", ".now").text == "differs")
    assert tab.knob("tau", ".now").text == "1"
    # A value that one member has already is a change to the others.
    tab.write("sync_period", "25")
    assert tab.knob("sync_period", ".apply").is_enabled()


@pytest.mark.thorough
def test_a_double_click_acts_once_on_each_member(tab, crowd):
    from selenium.webdriver.common.action_chains import ActionChains

    before = {member: len(log(crowd, member)) for member in ("m00", "m01", "m02")}
    ActionChains(tab.browser).double_click(ready(tab)).perform()
    answered(tab, "m00", "m01", "m02")
    tab.write("tau", "0.5")
    ready(tab, "form[data-name=tau] .apply")
    ActionChains(tab.browser).double_click(tab.knob("tau", ".apply")).perform()
    until(lambda: "applied" in tab.knob("tau", ".note").text)
    time.sleep(1.0)
    new = {member: [e.name for e in log(crowd, member)[n:]] for member, n in before.items()}
    assert new == {member: ["sync", "tau"] for member in before}


@pytest.mark.thorough
def test_pause_goes_to_those_that_go_on_and_resume_to_those_that_are_paused(
    browser, board, start_population
):
    with start_population("half", "m00", "m01:paused", "m02") as path:
        tab = all_members(Tab(browser, board), "half")
        until(lambda: tab.text("header .status") == "2 running, 1 paused")
        ready(tab, "[data-action=pause]").click()
        answered(tab, "m00", "m02")
        assert answer(tab, "m01") == "already paused"
        until(lambda: tab.text("header .status") == "3 paused")
        assert not tab.one("[data-action=pause]").is_enabled()
        RunClient(path / "m02").do("resume")
        until(lambda: tab.text("header .status") == "2 paused, 1 running")
        ready(tab, "[data-action=resume]").click()
        until(lambda: answer(tab, "m02") == "not paused")  # until then there are older answers
        answered(tab, "m00", "m01")
        assert "resume: done by all 2 members that were asked" in tab.text(".actions .note")
        done = {member: [e.name for e in log(path, member)] for member in ("m00", "m01", "m02")}
        assert done == {"m00": ["pause", "resume"], "m01": ["resume"], "m02": ["pause", "resume"]}


@pytest.mark.thorough
def test_stop_asks_once_more_and_names_the_number(browser, board, start_population):
    with start_population("few", "m00", "m01") as path:
        tab = all_members(Tab(browser, board), "few")
        ready(tab, "[data-action=stop]").click()
        assert tab.text("[data-action=stop]") == "Really stop 2?"
        assert log(path, "m00") == log(path, "m01") == []
        tab.one("[data-action=stop]").click()
        until(lambda: tab.text("header .status") == "2 stopped")
        until(lambda: "No member of few is at work" in tab.text("header .banner"))
        assert not any(button.is_enabled() for button in tab.all("[data-action], form.knob button"))
        stopped = [log(path, member)[-1].describe() for member in ("m00", "m01")]
        assert answered(tab, "m00", "m01") == stopped


@pytest.mark.thorough
def test_members_that_are_damaged_or_removed_while_they_are_asked_are_told(
    browser, board, start_population
):
    with start_population("hurt", "m00", "m01:silent", "m02:silent", "m03:silent") as path:
        tab = all_members(Tab(browser, board), "hurt")
        tab.write("sync_period", "42\n")
        answered(tab, "m00")
        assert answer(tab, "m01") == answer(tab, "m03") == "pending …"
        assert "pending" in tab.knob("sync_period", ".note").text
        (path / "m01/control/state.json").write_text("no JSON")
        shutil.rmtree(path / "m02")
        until(lambda: "m01/control/state.json is damaged" in answer(tab, "m01"))
        until(lambda: not tab.all(".members tr[data-member=m02]"))
        # One that is alive may still answer, so the whole is not said to be done.
        assert "pending" in tab.knob("sync_period", ".note").text
        shutil.rmtree(path / "m03")
        note = until(lambda: tab.all(f"{PERIOD} .note.refused"))[0].text
        assert note.startswith("applied by 1 of 4 members; 3 did not, the first because: ")
        # The one that is left is still steered.
        tab.write("sync_period", "43\n")
        until(lambda: "applied by the one member" in tab.knob("sync_period", ".note").text)
        assert log(path, "m00")[-1].new == 43


@pytest.mark.thorough
def test_a_value_that_only_some_members_have_says_so(browser, board, start_population):
    with start_population("mixed", "m00", "m01:more"):
        tab = all_members(Tab(browser, board), "mixed")
        until(lambda: tab.knob("temperature", ".elsewhere").text)
        said = tab.knob("temperature", ".elsewhere").text
        assert said == "not a value of all members: 1 of 2 have it"
        tab.write("temperature", "2\n")
        taken, refused = answered(tab, "m01", "m00")
        assert taken.startswith("temperature 1 -> 2 at update ") and "refused" in refused


@pytest.mark.thorough
def test_the_curves_are_those_of_the_members_also_after_one_of_them_alone(tab, crowd):
    tab.one("button[aria-label='Do not compare crowd/m01']").click()
    until(lambda: len(tab.all(".legend .chip")) == 2)
    all_members(tab, "crowd")
    assert len(tab.all(".legend .chip")) == 2
    tab.one("button[aria-label='Do not compare crowd/m00']").click()
    tab.choose("crowd/m02")
    all_members(tab, "crowd")
    until(lambda: len(tab.all(".legend .chip")) == 3)


@pytest.mark.thorough
def test_one_member_is_steered_alone_again_and_the_choice_outlives_a_reload(tab, board, crowd):
    until(lambda: len(tab.all(".legend .chip")) == 3)  # those at work have their curves
    tab.browser.refresh()
    until(lambda: tab.text("header .status") == "3 running, 1 finished")
    before = len(log(crowd, "m00"))
    tab.one(".members tr[data-member=m01] button").click()
    until(lambda: tab.text("header .status") == "running")
    assert not tab.one(".members").is_displayed()
    until(lambda: tab.knob("tau", ".apply").text == "Apply")
    assert not tab.one("[data-action=resume]").is_displayed()
    tab.write("tau", "0.75\n")
    until(lambda: "applied at update" in tab.knob("tau", ".note").text)
    assert log(crowd, "m01")[-1].new == 0.75 and len(log(crowd, "m00")) == before


@pytest.mark.thorough
@pytest.mark.parametrize("width", [420, 1280])
def test_nothing_sticks_out_sideways_with_many_members(browser, board, start_population, width):
    names = [f"m{i:02}" for i in range(64)]
    with start_population("large", *names) as path:
        tab = all_members(Tab(browser, board), "large")
        tab.write("sync_period", "44\n")
        until(lambda: "all 64 members" in tab.knob("sync_period", ".note").text)
        assert {len(log(path, name)) for name in names} == {1}
        assert answer(tab, "m63") == log(path, "m63")[0].describe()
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        tab.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        try:
            sizes = tab.browser.execute_script(
                "const root = document.documentElement; return [root.scrollWidth, root.clientWidth]"
            )
            assert sizes[0] <= sizes[1] <= width
        finally:
            tab.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        said = [m["message"] for m in tab.browser.get_log("browser")]
        assert [text for text in said if "plugin/steer" in text] == []


# Parts of the page, called by themselves.


@pytest.mark.thorough
def test_answers_count_once_and_only_those_that_were_asked_for(tab):
    found = called(tab, "request.js", """
        const request = new m.Request([{do: 'sync'}, {do: 'snapshot'}]);
        request.leaveOut('m03', 'not running: finished');
        request.sent({m00: {ids: ['a', 'b']}, m01: {ids: ['c', 'd']}}, {m02: 'gone'});
        const entry = (id, taken = true) => ({id, taken, text: `text ${id}`, reason: '', new: 5});
        const forged = {...entry('c'), text: 'as if of m01'};
        request.came('m00', [entry('a'), entry('a', false), forged, entry('x')]);
        request.came('m01', [entry('c'), entry('d', false)]);
        const open = request.isOpen;
        request.giveUp('m00', 'it has ended');
        const texts = [...request.replies].map(([name, all]) => [name, ...all.map((l) => l.text)]);
        return Promise.all(request.outcomes).then(
          (all) => [open, request.isOpen, texts, all.map((one) => one.note), all[0].new]);
    """)  # fmt: skip
    texts = [
        ["m03", "not running: finished"],
        ["m00", "text a", "it has ended"],
        ["m01", "text c", "text d"],
        ["m02", "gone"],
    ]
    notes = [
        "by 2 of 3 members; 1 did not: gone",
        "by 0 of 3 members; 3 did not, the first because: gone",
    ]
    assert found == [True, False, texts, notes, None]


# A population whose server is this script: `members` are the answers to come.
SERVED = """
    const real = window.fetch, answer = (content) => new Response(JSON.stringify(content));
    const later = [], shown = (members) => answer({members, values: [], actions: []});
    const asked = {m00: {ids: ['a'], position: 0}, m01: {ids: ['b'], position: 0}};
    const seen = () => new Promise((resolve) => later.push((them) => resolve(shown(them))));
    window.fetch = (path) => (path.startsWith('members') ? seen() : path !== 'command_members'
      ? real(path) : Promise.resolve(answer({asked, problems: {}})));
    const member = (name, status, more = {}) => ({member: name, status, alive: true, ...more});
    const population = new m.Population({name: 'x', path: '/x'}, () => {});
    const look = (members) => {
      const done = population.refresh();
      later.pop()(members);
      return done;
    };
    const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    const restore = (value) => { window.fetch = real; return value; };
"""


@pytest.mark.thorough
def test_an_older_answer_of_the_server_does_not_replace_a_newer_one(tab):
    found = called(tab, "population.js", SERVED + """
        const both = [population.refresh(), population.refresh()];
        later[1]([member('m00', 'paused')]);
        return both[1].then(() => { later[0]([member('m00', 'running')]); return both[0]; })
          .then(() => restore(population.status));
    """)  # fmt: skip
    assert found == "1 paused"


@pytest.mark.thorough
def test_a_second_click_is_refused_although_the_server_was_quick(tab):
    found = called(tab, "population.js", SERVED + """
        return look([member('m00', 'running'), member('m01', 'running')])
          .then(() => population.send([{do: 'sync'}])).then(() => wait(200))
          .then(() => population.send([{do: 'sync'}])).catch((error) => error.message)
          .then((refusal) => wait(800).then(() => restore([refusal, population.ready])));
    """)  # fmt: skip
    assert found == ["the last command is still on its way", True]


@pytest.mark.thorough
def test_members_that_are_gone_or_have_ended_are_not_waited_for(tab):
    found = called(tab, "population.js", SERVED + """
        let outcomes;
        return look([member('m00', 'running'), member('m01', 'running')])
          .then(() => population.send([{do: 'sync'}])).then((them) => { outcomes = them; })
          .then(() => look([member('m00', 'running', {alive: false, log: [], position: 0})]))
          .then(() => Promise.all(outcomes))
          .then(([one]) => restore([one.note, population.positions.size, population.open.size,
            ...[...population.last.replies.values()].map(([line]) => line.text)]));
    """)  # fmt: skip
    assert found == [
        "by 0 of 2 members; 2 did not, the first because: no answer came: it is killed",
        0, 0, "no answer came: it is killed", "the member is gone",
    ]  # fmt: skip


@pytest.mark.thorough
def test_of_the_newest_population_the_first_member_at_work_is_chosen(tab):
    chosen = """
        sessionStorage.clear(); // what was chosen before
        const {alive, population} = %s;
        const chooser = new m.Chooser(() => {}, () => {});
        const found = ['p/m10', 'p/m2', 'p/m1', 'older'].map((name) => {
          const isAlive = alive.includes(name);
          return {name, alive: isAlive, status: isAlive ? 'running' : 'finished', env_id: 'E'};
        });
        const members = population ? ['p/m1', 'p/m10', 'p/m2'] : [];
        chooser.offer(found, population ? [{name: 'p', path: 'p', members}] : []);
        return chooser.main.name;
    """
    for alive, population, wanted in (
        ([], True, "p/m1"),
        (["p/m10", "p/m2"], True, "p/m2"),
        ([], False, "p/m10"),
    ):
        settings = json.dumps({"alive": alive, "population": population})
        assert called(tab, "chooser.js", chosen % settings) == wanted
