"""The live page as a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import tilestitch


def started(folder, *arguments):
    """`tilestitch serve` in a folder, and the address that it printed."""
    package = str(Path(tilestitch.__file__).resolve().parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    server = subprocess.Popen(
        [sys.executable, "-m", "tilestitch", "serve", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return server, server.stdout.readline().strip()
