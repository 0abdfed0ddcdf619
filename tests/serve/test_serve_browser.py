"""The live page in a real browser: a schedule is changed by hand, saved, and compiled again from its file."""

import json
import os
import signal

import pytest
from click.testing import CliRunner

from tests.helpers.browser import Browser, browser_or_reason
from tests.helpers.serving import started
from tilestitch.cli import main as cli

LATENCY = "return Number(document.querySelector('#latency .value').textContent.replaceAll(',', ''))"
WIDE = "return document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture
def page(request, tmp_path):
    """The page of a server in a folder of its own."""
    browser = Browser(browser_or_reason(request))
    server, address = started(tmp_path)
    browser.size(1280)
    browser.dark(False)
    try:
        browser.visit(address)
        yield browser
    finally:
        browser.driver.quit()
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)


def drawn(page, key):
    """Wait until a compilation is shown, and its latency."""
    page.wait(f"return document.documentElement.dataset.drawn === '{key}'")
    return page.run(LATENCY)


def picture(page, name):
    """A picture to look at, where a folder for it is named."""
    folder = os.environ.get("TILESTITCH_PICTURES")
    if folder:
        page.driver.save_screenshot(f"{folder}/{name}.png")


@pytest.mark.slow
def test_a_schedule_is_changed_and_saved_on_the_page(page, tmp_path, monkeypatch):
    """Each change has its price; one step back is the price before; the file compiles to what the page said."""
    page.choose("machine", "toy")
    page.choose("batch", "8")
    page.choose("strategy", "stay-in-lb")
    page.run("[...document.querySelectorAll('header button')].find((one) => one.textContent === 'Compile').click()")
    first = drawn(page, 0)
    parts = [row[1].replace(",", "") for row in page.rows("gap")]
    gap = first - int(page.run("return document.querySelector('#bound .value').textContent").replace(",", ""))
    assert sum(map(int, parts)) == pytest.approx(gap, abs=len(parts))

    groups = len(page.rows("groups"))
    page.click("g0-merge")
    drawn(page, 1)
    assert len(page.rows("groups")) == groups - 1
    page.choose("g0-pieces", "4")
    cut = drawn(page, 2)
    assert cut != first
    assert len(page.rows("order")) == groups - 1 + 3
    assert page.run("return document.activeElement.id") in ("", "g0-pieces")
    word = "faster" if cut < first else "slower"
    assert word in page.run("return document.querySelector('#change-first').textContent")

    page.choose("g0-pieces", "1000")
    page.wait("return document.getElementById('fault').textContent")
    assert "pieces 1000 of" in page.run("return document.getElementById('fault').textContent")
    assert page.run(LATENCY) == cut

    page.click("undo")
    page.click("undo")
    assert drawn(page, 0) == first
    page.click("redo")
    page.click("redo")
    assert drawn(page, 2) == cut

    page.run("document.getElementById('file').value = 'by-hand.json'")
    page.click("write")
    command = page.wait("return document.getElementById('command')?.textContent")
    assert command == "tilestitch compile resnet18:small --from by-hand.json"
    page.click("write")
    page.wait("return document.getElementById('saved').textContent.includes('is there already')")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.main, [*command.split()[1:], "--json", "-"], prog_name="tilestitch")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["simulated"]["latency_cycles"] == cut

    page.run("document.getElementById('whole').open = true")
    page.wait("return document.querySelector('iframe').src")
    page.run("document.querySelector('iframe').scrollIntoView()")  # what is not seen is not drawn
    page.driver.switch_to.frame(page.driver.find_element("tag name", "iframe"))
    page.wait("return document.documentElement.dataset.drawn")
    assert "by hand" in page.run("return document.querySelector('h1').textContent")
    picture(page, "serve-frame")
    page.driver.switch_to.default_content()
    page.run("scrollTo(0, 0)")

    for dark in (False, True):
        for width in (1280, 390, 2560):
            page.dark(dark)
            page.size(width)
            page.settle()
            picture(page, f"serve-{'dark' if dark else 'light'}-{width}")
            assert page.run(WIDE), f"wider than {width} pixels"
    said = [line for line in page.complaints() if "status of 400" not in line and "status of 409" not in line]
    assert said == []
    assert {address.split("/")[2].split(":")[0] for address in page.requests() if address.startswith("http")} == {
        "127.0.0.1"
    }
