"""What a page of a run holds."""

import re

from tilestitch.report.html.packing import unpacked


def embedded(page: str, number: int = 0):
    """The header and the columns of a run, out of its page."""
    found = re.search(rf'<script type="text/plain" id="run-{number}">([^<]*)</script>', page)
    assert found is not None
    return unpacked(found.group(1))
