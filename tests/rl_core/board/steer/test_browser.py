"""The tab in a real browser: steering from end to end, and pages that try to steer from outside."""

import http.server
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from targetnet.rl_core.control.client import RunClient
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import read_log
from tests.rl_core.board.steer.tab import Tab, called, until

STEERING = "[data-action], .rewind [type=submit], form.knob button, .undo"
FAKE_RUN = Path(__file__).parents[2] / "control" / "fake_run.py"


@pytest.fixture
def tab(browser, board):
    return Tab(browser, board)


@pytest.mark.thorough
def test_a_value_is_changed_applied_and_marked(tab, run):
    until(lambda: len(tab.all(".plot path.curve")) >= 2)
    before = len(read_log(run.log))
    tab.write("sync_period", "33\n")
    note = until(lambda: "applied" in tab.knob("sync_period", ".note").text and
                 tab.knob("sync_period", ".note").text)  # fmt: skip
    entry = read_log(run.log)[before]
    assert (entry.who, entry.name, entry.new) == ("board", "sync_period", 33)
    assert note == f"applied at update {entry.update:,} (env step {entry.env_step:,})"
    assert tab.knob("sync_period", ".now").text == "33"
    assert tab.knob("sync_period", ".badge").text == "override"
    until(lambda: tab.marks().count(entry.describe()) == 4)
    assert entry.describe() in tab.text(".log li:first-child")
    tab.knob("sync_period", ".auto").click()
    until(lambda: tab.knob("sync_period", ".badge").text == "config")
    assert tab.knob("sync_period", ".now").text == "500"


@pytest.mark.thorough
def test_a_refusal_is_shown_in_its_place_and_nothing_changes(tab, run):
    tab.write("tau", "1.5\n")
    until(lambda: "in (0, 1]" in tab.knob("tau", ".note").text)
    assert "refused" in tab.knob("tau", ".note").get_attribute("class")
    assert read_log(run.log)[-1].taken is False
    before = len(read_log(run.log))
    for text in ("often", "0,5", "0,001", "1,0000"):  # a decimal comma would be another number
        tab.write("tau", text)
        tab.knob("tau", "input[type=text]").send_keys("\n")
        assert "write a number" in tab.knob("tau", ".note").text
    assert len(read_log(run.log)) == before
    tab.knob("tau", "input[type=text]").send_keys("\ue00c")  # Escape
    assert tab.knob("tau", "input[type=text]").get_attribute("value") in ("1", "0.5")


@pytest.mark.thorough
def test_an_action_on_the_weights_asks_for_its_block_and_number(tab, run):
    form = "form[aria-label='action on the weights']"
    before = len(read_log(run.log))
    until(lambda: tab.one("[data-action=perturb]").is_enabled())
    assert not tab.one(form).is_displayed()
    tab.one("[data-action=perturb]").click()
    field = tab.one("#weights-number")
    assert field.get_attribute("value") == "0.8"
    field.clear()
    field.send_keys("1.5\n")
    assert tab.text(f"{form} .refused") == "the factor must be a number above 0, below 1"
    field.clear()
    tab.one("#weights-block option[value=torso]").click()
    field.send_keys("0.5\n")
    until(lambda: "perturb 0.5 torso at update" in tab.text("header .note"))
    tab.one("[data-action=reset]").click()
    assert not field.is_displayed()  # it takes no number
    tab.one(f"{form} [type=submit]").click()
    assert tab.text(f"{form} .refused") == "choose a block"
    names = [option.get_attribute("value") for option in tab.all("#weights-block option")]
    assert names == ["", "torso", "head", "all"]
    tab.one("#weights-block option[value=head]").click()
    tab.one(f"{form} [type=submit]").click()
    until(lambda: "reset head at update" in tab.text("header .note"))
    asked = [(e.name, e.value, e.who, e.taken) for e in read_log(run.log)[before:]]
    assert asked == [("perturb", "0.5 torso", "board", True), ("reset", "head", "board", True)]


@pytest.mark.thorough
def test_everything_can_be_done_with_the_keyboard(tab, run):
    before = len(read_log(run.log))
    tab.write("sync_period", "100\ue013\n")  # 100, then up to the next round number
    until(lambda: len(read_log(run.log)) > before)
    assert read_log(run.log)[before].new == 200
    box = tab.knob("exempt", "input[value=head]")
    checked = box.is_selected()
    box.send_keys(" ")
    until(lambda: tab.knob("exempt", ".apply").is_enabled())
    tab.knob("exempt", ".apply").send_keys("\n")
    until(lambda: len(read_log(run.log)) > before + 1)
    assert ("head" in read_log(run.log)[before + 1].new) is not checked


@pytest.mark.thorough
def test_the_slider_steps_through_round_numbers(tab):
    slider = tab.knob("sync_period", "input[type=range]")
    tab.browser.execute_script(
        "arguments[0].value = 0.5; arguments[0].dispatchEvent(new Event('input'))", slider
    )
    value = float(tab.knob("sync_period", "input[type=text]").get_attribute("value"))
    assert value == round(value) and 1 < value < 1e6
    for _ in range(3):
        tab.knob("sync_period", ".step:last-of-type").click()
    stepped = tab.knob("sync_period", "input[type=text]").get_attribute("value")
    assert stepped.strip("0") in ("1", "2", "5") and float(stepped) > value


@pytest.mark.thorough
def test_buttons_pause_and_resume(tab, run):
    before = len(read_log(run.log))
    button = tab.one("[data-action=pause]")
    button.click()
    until(lambda: button.text == "Resume" and tab.text(".status") == "paused")
    button.click()
    until(lambda: button.text == "Pause" and tab.text(".status") == "running")
    assert [entry.name for entry in read_log(run.log)[before:]] == ["pause", "resume"]


@pytest.mark.thorough
def test_stop_asks_once_more(tab, run, nothing_arrives):
    button = tab.one("[data-action=stop]")
    button.click()
    assert button.text == "Really stop?"
    until(lambda: button.text == "Stop")


@pytest.mark.thorough
def test_a_touched_field_is_not_written_over_by_the_next_poll(tab):
    tab.write("sync_period", "77")
    time.sleep(2.2)
    assert tab.knob("sync_period", "input[type=text]").get_attribute("value") == "77"
    assert tab.knob("sync_period", ".apply").is_enabled()


@pytest.mark.thorough
def test_it_is_as_dark_as_tensorboard(browser, board):
    tab = Tab(browser, board, inside=True)

    def back():
        return tab.browser.execute_script("return getComputedStyle(document.body).backgroundColor")

    assert back() == "rgb(255, 255, 255)"
    tab.browser.execute_script("window.parent.document.body.classList.add('dark-mode')")
    until(lambda: back() != "rgb(255, 255, 255)")


@pytest.mark.thorough
@pytest.mark.parametrize("width", [600, 1280])
def test_nothing_sticks_out_sideways(tab, width):
    tab.browser.set_window_size(width, 900)
    sizes = tab.browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert sizes[0] <= sizes[1]


@pytest.mark.thorough
def test_nothing_goes_wrong_on_the_console(tab):
    time.sleep(1.5)
    ours = [m for m in tab.browser.get_log("browser") if "plugin/steer" in m["message"]]
    assert ours == []


@pytest.mark.thorough
def test_several_changes_are_applied_together_and_in_order(tab, run):
    before = len(read_log(run.log))
    tab.write("tau", "0.25")
    assert not tab.one(".bar").is_displayed()
    tab.write("sync_period", "66")
    assert "2 values" in tab.text(".bar")
    tab.one(".bar .apply").click()
    until(lambda: "applied" in tab.knob("tau", ".note").text)
    until(lambda: "applied" in tab.knob("sync_period", ".note").text)
    entries = [(entry.name, entry.new) for entry in read_log(run.log)[before:]]
    assert entries == [("sync_period", 66), ("tau", 0.25)]
    assert not tab.one(".bar").is_displayed()


@pytest.mark.thorough
def test_several_changes_of_which_one_is_no_number_are_not_sent(tab, nothing_arrives):
    tab.write("tau", "0.125")
    tab.write("sync_period", "often")
    tab.one(".bar .apply").click()
    until(lambda: "write a number" in tab.knob("sync_period", ".note").text)
    assert tab.knob("tau", ".note").text == ""
    tab.all(".bar button")[-1].click()
    assert not tab.one(".bar").is_displayed()
    assert tab.knob("sync_period", "input[type=text]").get_attribute("value") != "often"


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "value"), [("sync_period", 1_234_567), ("tau", 0.987654321)])
def test_a_value_of_many_digits_is_no_change_until_somebody_touches_it(tab, run, name, value):
    RunClient(run.run).set(name, value)
    shown = f"{value:,}" if name == "sync_period" else "0.987654"
    until(lambda: tab.knob(name, ".now").text == shown)
    field = tab.knob(name, "input[type=text]")
    assert not tab.knob(name, ".apply").is_enabled()
    field.send_keys("1")
    assert tab.knob(name, ".apply").is_enabled()
    field.send_keys("\ue003")  # Backspace
    assert not tab.knob(name, ".apply").is_enabled()


@pytest.mark.thorough
def test_a_schedule_is_shown_also_where_it_is_overridden(tab, run):
    RunClient(run.run).set("epsilon", "auto")
    schedule = "linear from 1 to 0.1 over env steps 0 to 1,000,000,000"
    until(lambda: tab.knob("epsilon", ".badge").text == "schedule")
    assert schedule in tab.knob("epsilon", ".meaning").text
    tab.write("epsilon", "0.5\n")
    until(lambda: tab.knob("epsilon", ".badge").text == "override")
    assert f"auto is {schedule}" in tab.knob("epsilon", ".meaning").text


@pytest.fixture
def other_run(logdir):
    """A run of its own, and its process."""
    run = logdir / "other" / "run"
    with subprocess.Popen([sys.executable, FAKE_RUN, run]) as process:
        until(lambda: (run / "control" / "state.json").exists())
        yield process
        process.kill()
    shutil.rmtree(run.parent)


@pytest.mark.thorough
def test_a_command_that_a_killed_run_never_answered_does_not_stay_pending(
    browser, board, other_run, logdir
):
    tab = Tab(browser, board, "other/run")
    other_run.send_signal(signal.SIGSTOP)
    tab.write("sync_period", "44\n")
    # The note comes before the request has left: killed by then, the run would be no run to ask.
    inbox = ControlFiles(logdir / "other" / "run").inbox
    until(lambda: any(path.suffix == ".json" for path in inbox.iterdir()))
    assert "pending" in tab.knob("sync_period", ".note").text
    other_run.kill()
    until(lambda: tab.knob("sync_period", ".note").text == "no answer came: the run is killed")
    assert tab.text(".status") == "killed"
    assert "takes no commands" in tab.text("header .banner")
    assert not any(button.is_enabled() for button in tab.all(STEERING))


@pytest.mark.thorough
def test_what_a_board_that_is_gone_has_shown_can_be_read_and_not_set(
    browser, start_board, logdir, nothing_arrives
):
    board = start_board(logdir)
    tab = Tab(browser, board)
    until(lambda: tab.one("[data-action=sync]").is_enabled())
    board.stop()
    until(lambda: "does not answer" in tab.text("header .banner"))
    assert not any(button.is_enabled() for button in tab.all(STEERING))
    assert tab.knob("sync_period", ".now").text


@pytest.mark.slow  # most of it is waiting
def test_a_page_goes_on_when_tensorboard_was_started_again(browser, start_board, logdir, run):
    board = start_board(logdir)
    port, tab = board.port, Tab(browser, board)
    until(lambda: tab.one("[data-action=sync]").is_enabled())
    board.stop()
    assert start_board(logdir, f"--port={port}").port == port
    until(lambda: tab.one("[data-action=sync]").is_enabled())
    before = len(read_log(run.log))
    tab.write("sync_period", "88\n")
    until(lambda: "applied" in tab.knob("sync_period", ".note").text)
    assert read_log(run.log)[before].new == 88


@pytest.mark.thorough
def test_a_directory_without_runs_says_how_to_start_one(browser, start_board, tmp_path):
    board = start_board(tmp_path)
    browser.get(f"{board.url}/data/plugin_entry.html?name=steer")
    until(lambda: browser.find_elements("css selector", ".empty:not([hidden])"))
    text = browser.find_element("css selector", ".empty").text
    assert "targetnet train cartpole" in text and str(tmp_path) in text


# Parts of the page, called by themselves.


@pytest.mark.thorough
def test_a_curve_stays_small_and_whole_however_long_the_page_is_open(tab):
    size, first, last = called(tab, "curve.js", """
        const curve = new m.Curve();
        for (let i = 0; i < 300000; i += 100) {
          curve.add(Array.from({length: 100}, (_, k) => [i + k, Math.sin(i + k)]));
        }
        return [curve.points.size, curve.sorted[0][0], curve.sorted.at(-1)[0]];
    """)  # fmt: skip
    assert size <= 2_000
    assert (first, last) == (0, 299_999)


@pytest.mark.thorough
def test_points_that_are_no_numbers_are_left_out(tab):
    script = """
        const curve = new m.Curve();
        return [curve.add([[1, null], [2, 'NaN'], [3, NaN], [3, 1.7e308]]), curve.add([[4, 5]]),
                curve.add([[4, 5]]), curve.points.size];
    """
    assert called(tab, "curve.js", script) == [False, True, False, 1]


@pytest.mark.thorough
def test_an_answer_counts_before_and_after_it_is_waited_for(tab):
    script = """
        const answers = new m.Answers();
        answers.came({id: 'early', new: 1});
        const promised = answers.to(['early', 'late', 'never']);
        answers.came({id: 'late', new: 2});
        answers.giveUp('gone');
        return Promise.allSettled(promised).then(
          (all) => all.map((p) => p.status === 'fulfilled' ? p.value.new : p.reason.message));
    """
    assert called(tab, "answers.js", script) == [1, 2, "gone"]


# From outside.

FORM_AND_FETCH = """<!doctype html><body><script>
const url = '{board}/data/plugin/steer/', json = {{'Content-Type': 'application/json'}};
const body = JSON.stringify({{run: 'some/run', commands: [{{do: 'stop'}}]}});
const tries = [
  fetch(url + 'command', {{method: 'POST', mode: 'no-cors', body}}),
  fetch(url + 'command', {{method: 'POST', body, headers: json}}),
  fetch(url + 'command', {{method: 'POST', body, credentials: 'include',
    headers: {{...json, 'X-Targetnet-Token': 'x'}}}}),
  fetch(url + 'session', {{method: 'POST', mode: 'no-cors', body: '{{}}'}}),
  fetch(url + 'session', {{method: 'POST', body: '{{}}', headers: json}}),
  fetch(url + 'runs'),
  fetch(url + 'command?run=some/run&do=stop', {{mode: 'no-cors'}}),
];
const form = document.createElement('form');
form.method = 'post'; form.enctype = 'text/plain'; form.action = url + 'command'; form.target = 'f';
const input = document.createElement('input');
input.name = body.slice(0, -1) + ',"x":"'; input.value = '"}}';
form.append(input);
const frame = document.createElement('iframe'); frame.name = 'f';
document.body.append(form, frame);
form.submit();
Promise.allSettled(tries).then((all) => {{
  const kinds = all.map((r) => r.status === 'fulfilled' ? r.value.type : 'blocked');
  document.title = 'done ' + kinds.join(' ');
}});
</script>"""

FRAME = """<!doctype html><body style="margin:0">
<iframe src="{board}/#steer" style="width:1200px;height:900px;border:0;opacity:.5"></iframe>"""


@pytest.fixture
def hostile(board):
    """Another site: the same machine, another port."""
    pages = {"/attack": FORM_AND_FETCH, "/frame": FRAME}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            page = pages.get(self.path, "").format(board=board.url).encode()
            self.send_response(200 if page else 404)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("localhost", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.thorough
def test_a_foreign_page_that_posts_changes_nothing(browser, hostile, nothing_arrives):
    browser.get(f"{hostile}/attack")
    title = until(lambda: browser.title.startswith("done") and browser.title)
    # Nothing it could read: blocked, or opaque.
    assert set(title.split()[1:]) <= {"blocked", "opaque"}
    time.sleep(0.5)


@pytest.mark.thorough
def test_a_foreign_page_that_frames_tensorboard_finds_the_buttons_off(
    browser, hostile, nothing_arrives
):
    browser.get(f"{hostile}/frame")
    browser.switch_to.frame(until(lambda: browser.find_elements("css selector", "iframe"))[0])
    inner = until(lambda: browser.find_elements("css selector", "iframe"))[0]
    browser.switch_to.frame(inner)
    until(lambda: browser.find_elements("css selector", "form.knob"))
    assert "inside another site" in until(
        lambda: browser.find_element("css selector", "header .banner").text
    )
    buttons = browser.find_elements("css selector", "button")
    assert not any(button.is_displayed() and button.is_enabled() for button in buttons)
    for button in buttons:
        browser.execute_script("arguments[0].disabled = false; arguments[0].click()", button)
    time.sleep(0.5)
