"""The Steer tab in a browser, as the tests use it."""

import time

# Seconds: beside other work TensorBoard takes more than 20 to show a new run's curve.
PATIENCE = 60.0


def until(found, seconds=PATIENCE):
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
    """The Steer tab of a board, open in a browser; `inside` TensorBoard's page it takes seconds."""

    def __init__(self, browser, board, run="some/run", *, inside=False):
        self.browser = browser
        if inside:
            browser.get(f"{board.url}/#steer")
            browser.switch_to.frame(until(lambda: self.all("iframe"))[0])
        else:
            browser.get(f"{board.url}/data/plugin_entry.html?name=steer")
        until(lambda: self.all("form.knob"))
        self.choose(run)

    def choose(self, run):
        # The board looks for new runs now and then.
        until(lambda: self.one(f'#run option[value="{run}"]').click() is None)
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
        from selenium.webdriver import Keys

        # One call: a field that was cleared and left takes the run's value again.
        self.knob(name, "input[type=text]").send_keys(Keys.CONTROL + "a" + Keys.NULL + value)

    def marks(self):
        """What the vertical marks of the four plots say."""
        return [mark.get_attribute("textContent") for mark in self.all(".plot line.mark title")]


def called(tab, module, script):
    """What a function of a module returns; `m` is the module."""
    return tab.browser.execute_async_script(
        "const [module, script, done] = arguments;"
        "import(module).then((m) => new Function('m', script)(m)).then(done, (e) => done(`${e}`))",
        f"{tab.browser.execute_script('return document.baseURI')}{module}",
        script,
    )
