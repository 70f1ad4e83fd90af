"""The tab in a real browser: steering from end to end, and pages that try to steer from outside."""

import http.server
import threading
import time

import pytest

from rl_core.control.log import read_log


def until(found, seconds=20.0):
    """The first true value that `found` gives; elements come and go meanwhile."""
    from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException

    deadline = time.monotonic() + seconds
    while True:
        try:
            if value := found():
                return value
        except (NoSuchElementException, StaleElementReferenceException):
            pass
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


class Tab:
    """The Steer tab of a board, open in a browser."""

    def __init__(self, browser, board):
        self.browser = browser
        browser.get(f"{board.url}/#steer")
        frame = until(lambda: self.all("iframe"))[0]
        browser.switch_to.frame(frame)
        until(lambda: self.all("form.knob"))

    def all(self, css):
        return self.browser.find_elements("css selector", css)

    def one(self, css):
        return self.browser.find_element("css selector", css)

    def text(self, css):
        return self.one(css).text

    def knob(self, name, inside):
        return self.one(f'form.knob[data-name="{name}"] {inside}')

    def write(self, name, value):
        field = self.knob(name, "input[type=text]")
        field.clear()
        field.send_keys(value)

    def marks(self):
        """What the vertical marks of the four plots say."""
        return [mark.get_attribute("textContent") for mark in self.all(".plot line.mark title")]


@pytest.fixture
def tab(browser, board):
    return Tab(browser, board)


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


def test_a_refusal_is_shown_in_its_place_and_nothing_changes(tab, run):
    tab.write("tau", "1.5\n")
    until(lambda: "in (0, 1]" in tab.knob("tau", ".note").text)
    assert "refused" in tab.knob("tau", ".note").get_attribute("class")
    assert read_log(run.log)[-1].taken is False
    tab.write("tau", "often")
    tab.knob("tau", "input[type=text]").send_keys("\n")
    assert "no number" in tab.knob("tau", ".note").text
    tab.knob("tau", "input[type=text]").send_keys("\ue00c")  # Escape
    assert tab.knob("tau", "input[type=text]").get_attribute("value") in ("1", "0.5")


def test_everything_can_be_done_with_the_keyboard(tab, run):
    before = len(read_log(run.log))
    field = tab.knob("sync_period", "input[type=text]")
    field.clear()
    field.send_keys("100", "\ue013", "\n")  # 100, then up to the next round number
    until(lambda: len(read_log(run.log)) > before)
    assert read_log(run.log)[before].new == 200
    box = tab.knob("exempt", "input[value=head]")
    checked = box.is_selected()
    box.send_keys(" ")
    until(lambda: tab.knob("exempt", ".apply").is_enabled())
    tab.knob("exempt", ".apply").send_keys("\n")
    until(lambda: len(read_log(run.log)) > before + 1)
    assert ("head" in read_log(run.log)[before + 1].new) is not checked


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


def test_buttons_pause_and_resume(tab, run):
    before = len(read_log(run.log))
    button = tab.one("[data-action=pause]")
    button.click()
    until(lambda: button.text == "Resume" and tab.text(".status") == "paused")
    button.click()
    until(lambda: button.text == "Pause" and tab.text(".status") == "running")
    assert [entry.name for entry in read_log(run.log)[before:]] == ["pause", "resume"]


def test_stop_asks_once_more(tab, run, nothing_arrives):
    button = tab.one("[data-action=stop]")
    button.click()
    assert button.text == "Really stop?"
    until(lambda: button.text == "Stop")


def test_a_touched_field_is_not_written_over_by_the_next_poll(tab):
    tab.write("sync_period", "77")
    time.sleep(2.2)
    assert tab.knob("sync_period", "input[type=text]").get_attribute("value") == "77"
    assert tab.knob("sync_period", ".apply").is_enabled()


def test_it_is_as_dark_as_tensorboard(tab):
    def back():
        return tab.browser.execute_script("return getComputedStyle(document.body).backgroundColor")

    assert back() == "rgb(255, 255, 255)"
    tab.browser.execute_script("window.parent.document.body.classList.add('dark-mode')")
    until(lambda: back() != "rgb(255, 255, 255)")


@pytest.mark.parametrize("width", [600, 1280])
def test_nothing_sticks_out_sideways(tab, width):
    tab.browser.switch_to.default_content()
    tab.browser.set_window_size(width, 900)
    tab.browser.switch_to.frame(tab.all("iframe")[0])
    sizes = tab.browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert sizes[0] <= sizes[1]


def test_nothing_goes_wrong_on_the_console(tab):
    time.sleep(1.5)
    ours = [m for m in tab.browser.get_log("browser") if "plugin/steer" in m["message"]]
    assert ours == []


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


def test_a_foreign_page_that_posts_changes_nothing(browser, hostile, nothing_arrives):
    browser.get(f"{hostile}/attack")
    title = until(lambda: browser.title.startswith("done") and browser.title)
    # Nothing it could read: blocked, or opaque.
    assert set(title.split()[1:]) <= {"blocked", "opaque"}
    time.sleep(0.5)


def test_a_foreign_page_that_frames_tensorboard_finds_the_buttons_off(
    browser, hostile, nothing_arrives
):
    browser.get(f"{hostile}/frame")
    browser.switch_to.frame(until(lambda: browser.find_elements("css selector", "iframe"))[0])
    inner = until(lambda: browser.find_elements("css selector", "iframe"))[0]
    browser.switch_to.frame(inner)
    until(lambda: browser.find_elements("css selector", "form.knob"))
    assert "inside another site" in until(
        lambda: browser.find_element("css selector", ".banner").text
    )
    for button in browser.find_elements("css selector", "button"):
        assert not button.is_enabled()
        browser.execute_script("arguments[0].disabled = false; arguments[0].click()", button)
    time.sleep(0.5)
