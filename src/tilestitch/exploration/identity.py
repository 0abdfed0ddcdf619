"""Digests: two points are one where the same program would do the same to the same."""

import hashlib
import json
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent


@cache
def program_digest() -> str:
    """Of the package's code, its version included: results of another program are never taken for its own."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(str(path.relative_to(_PACKAGE).as_posix()).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def digest_of(content: bytes) -> str:
    """Of some bytes, as text."""
    return hashlib.sha256(content).hexdigest()


def point_key(machine_digest: str, network_digest: str, evaluator: str, program: str) -> str:
    """What a point is found again by."""
    return digest_of(json.dumps([machine_digest, network_digest, evaluator, program]).encode())
