"""The pictures in docs/page.md: `python docs/pictures/page.py PAGE.html FOLDER`, with chromium and selenium.

The page is what one of these writes; the pictures are panes of it in the folder, as `page-timeline.png`:

    tilestitch compile resnet50 --machine stcp920 --strategy graphturbo --batch 64 --html PAGE.html
    tilestitch map resnet18:small --machine eyeriss --html PAGE.html
    tilestitch simulate resnet18:small --machine eyeriss --html PAGE.html
    tilestitch simulate resnet18:small --machine gemmini --html PAGE.html
"""

import sys
import time
from collections.abc import Mapping
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By

WIDTH, HEIGHT = 1280, 4000  # of the window; it becomes as high as the page, so that no pane is cut or covered
SELECTED = "#select=operator:layer3.0.conv2&colour=instance"
PANES = {"timeline": SELECTED, "memories": SELECTED, "roofline": SELECTED, "why": "", "idle": "#cycles=2000000-2400000"}
# By the command, where it is not compile.
OTHERS = {
    "map": {"nest": "#layer=layer2.0.conv2"},
    "simulate": {"array": "#layer=layer2.0.conv2&cycle=1030&element=20"},
    "simulate-tree": {"ports": "#layer=layer2.0.conv2"},
}
PLACES = {  # not the canvas alone
    "why": "#why",
    "idle": "#timeline",
    "nest": "#nest .nest",
    "array": "#simulation",
    "ports": "#simulation",
}
PATIENCE = 30  # seconds


def take(page: Path, folder: Path, prefix: str = "page", panes: Mapping[str, str] | None = None) -> None:
    """Open the page in a headless Chromium, and photograph panes of it, each given with the address that shows it.

    Without panes it photographs those that docs/page.md shows of such a page.
    """
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    options.binary_location = "/usr/bin/chromium"
    with webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver")) as driver:
        driver.set_window_size(WIDTH, HEIGHT)
        driver.get(page.resolve().as_uri())
        kind = driver.execute_script("return JSON.parse(document.getElementById('summary').textContent).kind")
        for name, address in (panes or OTHERS.get(kind, PANES)).items():
            driver.get("about:blank")
            driver.get(page.resolve().as_uri() + address)
            end = time.monotonic() + PATIENCE
            while not driver.execute_script("return document.documentElement.dataset.drawn"):
                if time.monotonic() > end:
                    sys.exit(f"{page} is not drawn within {PATIENCE} s")
                time.sleep(0.1)
            driver.set_window_size(WIDTH, driver.execute_script("return document.documentElement.scrollHeight") + 200)
            time.sleep(1)
            place = driver.find_element(By.CSS_SELECTOR, PLACES.get(name, f"#{name} .surface"))
            picture = place.screenshot_as_png
            if abs(int.from_bytes(picture[20:24]) - place.size["height"]) > 1:  # the height in the header of a PNG
                sys.exit(f"{name} of {page} is {place.size['height']} pixels high, and its picture is not")
            (folder / f"{prefix}-{name}.png").write_bytes(picture)


if __name__ == "__main__":
    take(*map(Path, sys.argv[1:]))
