"""A headless Chromium, driven by selenium: what a page draws, and whether it complains or asks for anything."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

PATIENCE = 30  # seconds until a page is drawn

# The time of each frame's script, before anything of the page runs.
TIMED_FRAMES = """
window.frames_ms = [];
const ask = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = (draw) => ask((time) => {
  const start = performance.now();
  draw(time);
  window.frames_ms.push(performance.now() - start);
});
"""

CHANGED = """
const field = document.getElementById(arguments[0]);
field.value = arguments[1];
field.dispatchEvent(new Event("change"));
"""

COUNTED_COLOURS = """
const canvas = document.querySelector(`#${arguments[0]} canvas`);
const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
const counts = new Map();
for (let at = 0; at < data.length; at += 4) {
  if (data[at + 3] < 255) continue;
  const colour = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2];
  counts.set(colour, (counts.get(colour) ?? 0) + 1);
}
return [...counts];
"""


def browser_or_reason(request):
    """A browser, or, where there is none, a skipped test that says so; of a slow test a failure."""
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        return _without(request, "selenium is not installed (make install)")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        return _without(request, "there is no chromium with chromedriver (apt-get install chromium chromium-driver)")
    options = Options()
    options.binary_location = chromium
    for argument in ("--headless=new", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium does not start as root with one
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(driver))


def _without(request, reason):
    if request.node.get_closest_marker("slow") is not None:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


class Browser:
    """One window with one page."""

    def __init__(self, driver):
        self.driver = driver
        self._command("Page.addScriptToEvaluateOnNewDocument", source=TIMED_FRAMES)

    def _command(self, name, **arguments):
        return self.driver.execute_cdp_cmd(name, arguments)

    def size(self, width, height=900):
        """The size of the window, in pixels of CSS."""
        self._command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def dark(self, dark):
        """What the user prefers."""
        scheme = "dark" if dark else "light"
        self._command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def paper(self, on: bool):
        """Show what is printed, or the screen again."""
        self._command("Emulation.setEmulatedMedia", media="print" if on else "", features=[])

    def open(self, path: Path, address: str = ""):
        """Open a page from disk, and wait until it is drawn."""
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(path.resolve().as_uri() + address)
        self.wait("return document.documentElement.dataset.drawn")
        self.settle()

    def visit(self, address: str):
        """Open a page that a server gives, and wait until it can be used."""
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(address)
        self.wait("return document.documentElement.dataset.ready")

    def click(self, element):
        """Press what has that id."""
        self.run("document.getElementById(arguments[0]).click()", element)

    def wait(self, script, *arguments):
        """Wait until a script returns something true, and return it."""
        end = time.monotonic() + PATIENCE
        while not (found := self.run(script, *arguments)):
            assert time.monotonic() < end, f"not within {PATIENCE} s: {script}; {self.driver.get_log('browser')}"
            time.sleep(0.02)
        return found

    def settle(self):
        """Wait until what has changed is drawn, and is in the address bar."""
        script = "const done = arguments[0]; setTimeout(() => requestAnimationFrame(() => done(true)), 280)"
        assert self.driver.execute_async_script(script)

    def run(self, script, *arguments):
        """What a script returns."""
        return self.driver.execute_script(script, *arguments)

    def find(self, text):
        """Select by the field in the header."""
        self.run(
            "const f = document.getElementById('find'); f.value = arguments[0]; f.dispatchEvent(new Event('change'))",
            text,
        )
        self.settle()

    def choose(self, field, value):
        """Choose one of several by the list of that name."""
        self.run(CHANGED, field, value)

    def rows(self, name):
        """The cells of a table, row by row, without its heads."""
        return self.run(
            "return [...document.querySelectorAll(`[data-table='${arguments[0]}'] tbody tr`)]"
            ".map((row) => [...row.children].map((cell) => cell.textContent))",
            name,
        )

    def pixels(self, pane):
        """How often each colour, 0xrrggbb of what is opaque, is on the canvas of a pane."""
        return dict(self.run(COUNTED_COLOURS, pane))

    def wait_for_colour(self, pane, colour, at_least=1):
        """Wait until so many pixels of a pane have a colour, 0xrrggbb: media change with a later frame."""
        asked = "const [, colour, least] = arguments; " + COUNTED_COLOURS.replace(
            "return [...counts];", "return (counts.get(colour) ?? 0) >= least;"
        )
        self.wait(asked, pane, colour, at_least)

    def complaints(self):
        """What the console says."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """The addresses that the page has asked for since it was opened."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found
