"""A browser that all tests of pages share."""

from collections.abc import Iterator

import pytest

from tests.helpers.browser import Browser, browser_or_reason


@pytest.fixture(scope="session")
def started() -> Iterator[list[Browser]]:
    """The browser of these tests, once one of them has started it."""
    found: list[Browser] = []
    yield found
    for each in found:
        each.driver.quit()


@pytest.fixture
def browser(request: pytest.FixtureRequest, started: list[Browser]) -> Browser:
    """A browser in daylight, of the size of a small screen."""
    if not started:
        started.append(Browser(browser_or_reason(request)))
    started[0].size(1280)
    started[0].dark(False)
    return started[0]
