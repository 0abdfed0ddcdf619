"""What pages hold, out of their text."""

import json
import re

from tilestitch.report.html.packing import unpacked


def summary_of(page: str):
    """What a page says."""
    found = re.search(r'<script type="application/json" id="summary">(.*?)</script>', page)
    assert found is not None
    return json.loads(found.group(1))


def embedded(page: str, number: int = 0):
    """The header and the columns of something that is packed in a page."""
    found = re.search(rf'<script type="text/plain" id="run-{number}">([^<]*)</script>', page)
    assert found is not None
    return unpacked(found.group(1))


def expect_alone(page: str) -> None:
    """No address is in a page, and the policy that it states forbids requests."""
    own = re.sub(r'<script type="(text/plain|application/json)".*?</script>', "", page, flags=re.DOTALL)
    assert not re.findall(r"https?:|//[a-z]|\bimport\(|\bfetch\(|XMLHttpRequest|WebSocket|\bsrc=|\bhref=|url\(", own)
    assert "default-src 'none'" in page
