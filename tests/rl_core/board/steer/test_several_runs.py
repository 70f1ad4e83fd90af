"""The tab with several runs, in a real browser: compared, set together, undone, rewound."""

import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from targetnet.rl_core.board.events import EventWriter
from targetnet.rl_core.board.tags import Tag
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import ControlLog, Entry, read_log
from tests.rl_core.board.steer.tab import Tab, called, until

FAKE_RUN = Path(__file__).parents[2] / "control" / "fake_run.py"
HOSTILE = "<img src=x onerror='window.hacked=1'>"


def entry(number, who, value, old, new, step):
    return Entry(
        id=f"{number:032x}", asked=number, time=number, who=who, kind="set", name="epsilon",
        value=value, old=old, new=new, tick=step, env_step=step, update=2 * step,
    )  # fmt: skip


@pytest.fixture(scope="module")
def pair(logdir):
    """Two runs, `pair/a` and `pair/b`, with curves; b refuses every change."""
    processes = []
    for name, more in (("a", []), ("b", ["1000000000", "repeats"])):
        run = logdir / "pair" / name
        with EventWriter(run) as events:
            # Far beyond the env steps that the fake run makes meanwhile.
            for step in range(0, 200_000, 250):
                height = 10.0 if name == "a" else 20.0
                events.scalars({"episode/return": height, "learn/loss": step % 1_000 / 750}, step)
        files = ControlFiles(run)
        if name == "a":
            files.make()
            log = ControlLog(files.log)
            log.append([
                entry(1, "schedule", "auto", 1.0, 0.5, 60_000),
                entry(2, "cli", 0.25, 0.5, 0.25, 160_000),
            ])  # fmt: skip
            log.close()
        processes.append(subprocess.Popen([sys.executable, FAKE_RUN, run, *more]))
        until(lambda files=files: files.state.exists())
    yield logdir / "pair"
    for process in processes:
        process.kill()
        process.wait()
    shutil.rmtree(logdir / "pair")


@pytest.fixture
def tab(browser, board, pair):
    """The tab with `pair/a`, whose values are shown, and `pair/b`."""
    tab = Tab(browser, board, "pair/a")
    compare(tab, "pair/b")
    until(lambda: len(tab.all(".plot path.curve")) >= 4)
    return tab


def compare(tab, name):
    until(lambda: tab.one(".compare").is_displayed())
    if not tab.one(".choice").is_displayed():
        tab.one(".compare").click()
    until(lambda: tab.one(f".runs input[value='{name}']").click() is None)


def plot(tab, tag):
    """The plot that shows this curve; only its parts are made anew with each drawing."""
    return until(lambda: [p for p in tab.all(".plot") if picked(p) == tag])[0]


def picked(plot):
    return plot.find_element("css selector", ".tag").get_attribute("value")


def drawn(tab, tag, css, what):
    """An expression of JavaScript for each part `e` of a plot, all at one moment."""
    script = f"return [...arguments[0].querySelectorAll('{css}')].map((e) => {what})"
    return tab.browser.execute_script(script, plot(tab, tag))


def ticks(tab, tag):
    return drawn(tab, tag, "text.tick", "e.textContent")


def curves(tab, tag):
    """The colours of the curves."""
    return drawn(tab, tag, "path.curve", "getComputedStyle(e).stroke")


def tip(tab, tag):
    return until(lambda: plot(tab, tag).find_element("css selector", ".tip").text)


def in_plot(tab, tag, *moves):
    """Moves the pointer over a plot: (x, y) from its middle, "down", "up", "twice"."""
    from selenium.webdriver.common.action_chains import ActionChains

    chain = ActionChains(tab.browser, duration=50)
    area = plot(tab, tag).find_element("css selector", "svg")
    for move in moves:
        if isinstance(move, tuple):
            chain.move_to_element_with_offset(area, *move)
        else:
            {"down": chain.click_and_hold, "up": chain.release, "twice": chain.double_click}[move]()
    chain.perform()


def hover(tab, tag):
    """Moves the pointer to where a plot shows values: near a mark it shows the change instead.

    The tests before have changed values at env steps that depend on the machine's speed.
    """
    script = """
        const svg = arguments[0].getBoundingClientRect(), middle = svg.left + svg.width / 2;
        const marks = [...arguments[0].querySelectorAll('line.mark')];
        const near = (x) => marks.some((m) => Math.abs(m.getBoundingClientRect().left - x) < 10);
        return [...Array(20).keys()].map((i) => 5 * i - 50).find((x) => !near(middle + x));
    """
    area = plot(tab, tag).find_element("css selector", "svg")
    in_plot(tab, tag, (tab.browser.execute_script(script, area), 0))


@pytest.mark.thorough
def test_runs_are_drawn_over_one_another_each_in_its_colour_and_hover_shows_both_values(tab):
    until(lambda: len(curves(tab, "episode/return")) == 2)
    colours = set(curves(tab, "episode/return"))
    assert len(colours) == 2
    chips = [chip.text for chip in tab.all(".legend .chip .name")]
    assert chips == ["pair/arunning", "pair/brunning"]
    script = (
        "return getComputedStyle(document.querySelector('.chip.slot-1 .swatch')).backgroundColor"
    )
    assert tab.browser.execute_script(script) in colours
    hover(tab, "episode/return")
    until(lambda: tip(tab, "episode/return").splitlines()[1:] == ["pair/b 20", "pair/a 10"])
    assert tip(tab, "episode/return").startswith("env step ")


@pytest.mark.thorough
def test_a_run_that_is_put_aside_takes_its_curves_and_changes_along(tab):
    until(lambda: len(tab.all(".log li")) >= 2)
    tab.one("button[aria-label='Do not compare pair/a']").click()
    until(lambda: len(tab.all(".plot path.curve")) == 4)
    assert tab.one("#run").get_attribute("value") == "pair/b"
    assert not tab.one(".legend").is_displayed()
    assert not any("epsilon" in line.text for line in tab.all(".log li"))
    assert ticks(tab, "learn/q_mean")[0] == "0"  # a constant curve has its axis from 0


def choose_curve(tab, number, tag):
    from selenium.webdriver.support.ui import Select

    until(lambda: tag in tab.all(".plot")[number].text)
    Select(tab.all(".plot select")[number]).select_by_visible_text(tag)


@pytest.mark.thorough
def test_what_was_chosen_is_chosen_again_after_a_reload(tab, board):
    choose_curve(tab, 3, "learn/loss")
    tab.browser.refresh()
    again = Tab(tab.browser, board, "pair/a")
    until(lambda: len(again.all(".legend .chip")) == 2)
    assert picked(again.all(".plot")[3]) == "learn/loss"


@pytest.mark.thorough
def test_a_ninth_run_cannot_be_chosen(tab):
    counts = called(tab, "chooser.js", """
        const chooser = new m.Chooser(() => {});
        const names = Array.from({length: 20}, (_, i) => `run-${i}`);
        sessionStorage.clear();
        chooser.offer(names.map((name) => ({name, status: 'running', alive: true, time: 0})));
        for (const name of names) chooser.toggle(name, true);
        const slots = new Set(chooser.runs.map((run) => run.slot));
        const free = [...chooser.list.querySelectorAll('input')].filter((box) => !box.disabled);
        return [chooser.runs.length, slots.size, free.length];
    """)  # fmt: skip
    assert counts == [8, 8, 8]


@pytest.mark.thorough
def test_a_value_is_set_on_all_chosen_runs_and_a_refusal_has_its_runs_name(tab, pair):
    logs = [ControlFiles(pair / name).log for name in "ab"]
    before = [len(read_log(log)) for log in logs]
    assert "pair/b" not in tab.knob("sync_period", ".notes").text
    tab.one("#on-all").click()
    tab.write("sync_period", "41\n")
    until(lambda: "pair/a: applied" in tab.knob("sync_period", ".notes").text)
    refused = until(lambda: tab.all("form[data-name=sync_period] .note.refused"))[0].text
    assert refused == "pair/b: changes are refused: this run repeats another one"
    (taken,), (not_taken,) = (read_log(log)[n:] for log, n in zip(logs, before, strict=True))
    assert (taken.taken, taken.new, not_taken.taken, not_taken.value) == (True, 41, False, 41)
    assert "500" in until(lambda: tab.knob("sync_period", ".elsewhere").text)  # b's value
    tab.knob("sync_period", ".auto").click()
    until(lambda: tab.knob("sync_period", ".badge").text == "config")


@pytest.mark.thorough
def test_a_red_message_goes_away_when_typing_begins(tab, nothing_arrives):
    tab.write("tau", "1.5\n")
    until(lambda: tab.all("form[data-name=tau] .note.refused"))
    tab.knob("tau", "input[type=text]").send_keys("0")
    assert not tab.all("form[data-name=tau] .note.refused")
    tab.one("[data-action=rewind]").click()
    tab.one("#rewind-k").send_keys("x\n")
    assert tab.text(".rewind .refused")
    tab.one("#rewind-k").send_keys("1")
    assert not tab.text(".rewind .refused")


def newest(tab, text):
    """The newest line of Changes, when it has this text."""
    return until(lambda: text in tab.text(".log li:first-child") and tab.one(".log li:first-child"))


@pytest.mark.thorough
def test_undo_sets_what_was_before_a_number_or_auto(tab, pair):
    log = ControlFiles(pair / "a").log
    tab.write("sync_period", "61\n")
    line = newest(tab, "-> 61 at")
    tab.write("sync_period", "62\n")
    newer = newest(tab, "61 -> 62 at")
    until(lambda: "applied" in tab.knob("sync_period", ".note").text)
    newer.find_element("css selector", ".undo").click()
    until(lambda: "undone" in newer.text)
    until(lambda: tab.knob("sync_period", ".note").text == "")  # 62 is not in force any more
    assert (read_log(log)[-1].value, read_log(log)[-1].who) == (61, "board")
    line.find_element("css selector", ".undo").click()
    until(lambda: "undone" in line.text)
    assert read_log(log)[-1].value == "auto"
    until(lambda: tab.knob("sync_period", ".badge").text == "config")


@pytest.mark.thorough
def test_undo_returns_to_auto_if_the_schedule_ruled_and_to_the_number_if_that_is_not_known(tab):
    found = called(tab, "changes.js", """
        const set = (id, name, value, old, more = {}) =>
          ({id, kind: 'set', name, value, old, taken: true, who: 'cli', ...more});
        const entries = [
          set('a', 'x', 1, 0), set('b', 'y', 5, 4), set('c', 'x', 'auto', 1), set('d', 'x', 2, 0.5),
          set('e', 'x', 'auto', 2, {taken: false}), set('f', 'x', 3, 2),
          set('g', 'z', 'auto', 1, {who: 'schedule'}), set('h', 'z', 8, 0.5),
        ];
        const before = (id, whole) => {
          const {value, sure} = m.valueBefore(entries.find((e) => e.id === id), entries, whole);
          return [value, sure];
        };
        return [before('a', true), before('a', false), before('c', true), before('d', false),
                before('f', true), before('h', false)];
    """)  # fmt: skip
    assert found == [
        ["auto", True],  # no change before it
        [0, False],  # older changes are not known
        [1, True],
        ["auto", True],  # the change before it went back to auto
        [2, True],  # the refused one between them changed nothing
        ["auto", True],  # a schedule ruled
    ]


@pytest.mark.thorough
def test_a_change_is_copied_as_a_command_that_a_shell_reads_back(tab, pair):
    from selenium.webdriver import Keys

    tab.write("tau", "0.375\n")
    line = newest(tab, "-> 0.375 at")
    line.find_element("css selector", ".copy").click()
    until(lambda: "Copied" in line.text)
    tab.knob("sync_period", "input[type=text]").send_keys(Keys.CONTROL + "av" + Keys.NULL)
    copied = tab.knob("sync_period", "input[type=text]").get_attribute("value")
    assert shlex.split(copied) == ["targetnet", "set", str(pair / "a"), "tau=0.375"]


@pytest.mark.thorough
def test_rewind_asks_first_takes_k_and_says_that_values_stay(tab, pair):
    log = ControlFiles(pair / "a").log
    tab.write("sync_period", "71\n")
    newest(tab, "-> 71 at")
    before = len(read_log(log))
    tab.one("[data-action=rewind]").click()
    said = until(lambda: "sync_period = 71" in tab.text(".rewind") and tab.text(".rewind"))
    assert "Live values stay as they are now: sync_period = 71" in said
    tab.one("#rewind-k").send_keys("\ue003" + "0\n")  # Backspace
    assert "must be a whole number >= 1" in tab.text(".rewind")
    assert len(read_log(log)) == before
    tab.one("#rewind-k").send_keys("\ue003" + "2")
    assert tab.text(".rewind [type=submit]") == "Rewind 2"
    tab.one("#rewind-k").send_keys("\n")
    until(lambda: "live values stay as they are" in tab.text(".actions .note"))
    (asked,) = read_log(log)[before:]
    assert (asked.kind, asked.name, asked.value) == ("do", "rewind", 2)
    assert not tab.one(".rewind").is_displayed()


@pytest.mark.thorough
def test_a_schedules_change_looks_other_than_a_persons_in_the_list_and_on_the_curves(tab):
    def styles(kind):
        return tab.browser.execute_script(
            """const style = (css) => getComputedStyle(document.querySelector(css));
               const words = style(`.log .${arguments[0]} .what`);
               const line = style(`.plot .change.${arguments[0]} .mark`);
               return [words.fontStyle, line.stroke, line.strokeDasharray];""",
            kind,
        )

    until(lambda: tab.all(".log .schedule") and tab.all(".plot .change.schedule"))
    assert all(a != b for a, b in zip(styles("schedule"), styles("person"), strict=True))
    assert tab.all(".log .person .undo") and not tab.all(".log .schedule button")


@pytest.mark.thorough
def test_any_curve_can_be_shown_in_place_of_another(tab):
    choose_curve(tab, 1, "learn/loss")
    until(lambda: len(curves(tab, "learn/loss")) == 2)
    assert ticks(tab, "learn/loss")[:3] == ["0", "0.5", "1"]


@pytest.mark.thorough
def test_a_part_is_zoomed_into_by_dragging_and_left_by_a_double_click(tab):
    tag = "episode/return"
    until(lambda: ticks(tab, tag))
    in_plot(tab, tag, (-60, 0), "down", (-20, 0), "up")
    until(lambda: tab.one(".reset").is_displayed())
    first, last = (int(n.replace(",", "")) for n in tab.text(".curves .unit").split()[2::2])
    assert 0 < first < last
    until(lambda: ticks(tab, tag)[3] != "0")
    in_plot(tab, tag, (0, 20), "twice")
    until(lambda: not tab.one(".reset").is_displayed())
    until(lambda: "0" in ticks(tab, tag)[2:])


@pytest.mark.thorough
def test_smoothing_keeps_the_curve_faint_behind(tab):
    tag = "episode/return"
    assert not drawn(tab, tag, "path.raw", "1")
    tab.browser.execute_script(
        "const s = document.querySelector('#smoothing'); s.value = 0.9;"
        "s.dispatchEvent(new Event('input'))"
    )
    until(lambda: len(drawn(tab, tag, "path.raw", "1")) == 2)
    assert tab.text(".smoothing output") == "0.90"


@pytest.mark.thorough
def test_smoothing_is_that_of_tensorboard(tab):
    # 0.5 * 0 + 0.5 * 8 = 4, / (1 - 0.5); then 0.5 * 4 + 0.5 * 0 = 2, / (1 - 0.25)
    script = "return m.smooth([[0, 8], [1, 0]], 0.5)"
    assert called(tab, "curve.js", script) == [[0, 8], [1, pytest.approx(8 / 3)]]


@pytest.mark.thorough
def test_ticks_are_round_and_end_for_any_numbers(tab):
    found = called(tab, "axis.js", """
        const range = (a, b) => m.tickTexts(m.ticks(a, b, 3));
        const wild = [[-1e300, 1e300], [1e300, 1.0000000000000002e300], [0, 5e-324]];
        return [range(0, 480), range(107000, 107400), range(-0.1, 0.3), range(0, 2e-5),
                wild.every(([a, b]) => m.ticks(a, b, 3).length <= 9)];
    """)  # fmt: skip
    assert found == [
        ["0", "200", "400", "600"],
        ["107k", "107.2k", "107.4k"],
        ["-0.2", "0", "0.2", "0.4"],
        ["0", "1e-5", "2e-5"],
        True,
    ]


@pytest.mark.cases(0, 2)
@pytest.mark.parametrize("width", [420, 800, 1280])
def test_nothing_sticks_out_sideways_with_all_that_can_be_open(tab, width):
    tab.one("[data-action=rewind]").click()
    tab.one("#on-all").click()
    tab.write("tau", "7\n")
    until(lambda: len(tab.all("form[data-name=tau] .note.refused")) == 2)
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    tab.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        sizes = tab.browser.execute_script(
            "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert sizes[1] <= width and sizes[0] <= sizes[1]
    finally:
        tab.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.thorough
def test_names_that_are_markup_are_shown_as_text(browser, board, logdir, pair):
    run = logdir / "pair" / HOSTILE.replace("/", "")
    tags = [Tag(f"x/{HOSTILE}", HOSTILE, HOSTILE), Tag("constructor", "1", "as all objects have")]
    with EventWriter(run, more_tags=tags) as events:
        for step in range(5):
            events.scalars({tag.name: float(step) for tag in tags}, step)
    files = ControlFiles(run)
    files.make()
    log = ControlLog(files.log)
    hostile = entry(9, "api", HOSTILE, 1.0, HOSTILE, 3)
    log.append([hostile.model_copy(update={"who": HOSTILE, "name": HOSTILE})])
    log.close()
    process = subprocess.Popen([sys.executable, FAKE_RUN, run, "1000000000"])
    try:
        tab = Tab(browser, board, "pair/a")
        compare(tab, f"pair/{run.name}".replace("'", "\\'"))
        until(lambda: HOSTILE in tab.text(".log"))
        for i, tag in enumerate(tags):
            choose_curve(tab, i, tag.name)
            until(lambda tag=tag: curves(tab, tag.name))
        hover(tab, "constructor")
        until(lambda: run.name in tip(tab, "constructor"))  # after the curves that came last
        assert not tab.all("img")
        assert tab.browser.execute_script("return window.hacked") is None
        time.sleep(1.5)  # it goes on asking for the state
        said = [m["message"] for m in tab.browser.get_log("browser")]
        assert [text for text in said if "plugin/steer" in text] == []
    finally:
        process.kill()
        process.wait()
