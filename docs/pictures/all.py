"""All pictures of the documentation: `python -m docs.pictures.all`, or `... all tutorial` for one of GROUPS.

Everything is made by the program itself: bars from the JSON of a comparison, the others from pages that `--html`
writes, photographed in Chromium. Those of ResNet-50 take some minutes.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from docs.pictures import make, page

HERE = Path(__file__).parent
TILESTITCH = (sys.executable, "-m", "tilestitch")
RESNET = ("resnet50", "--machine", "stcp920", "--batch", "64", "--quiet")
TUTORIAL = ("mlp.onnx", "--machine", "edge.yaml", "--dim", "tokens=128", "--batch", "2", "--quiet")
FILE = re.compile(r"^<!-- file: (\S+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def bars(folder: Path) -> None:
    """The picture of README.md."""
    report = folder / "compare.json"
    subprocess.run([*TILESTITCH, "compare", *RESNET, "--json", report], check=True)
    svg = make.picture(json.loads(report.read_text(encoding="utf-8")))
    (HERE / "resnet50.svg").write_text(svg, encoding="utf-8")


def panes(folder: Path) -> None:
    """The pictures of docs/page.md."""
    written = folder / "page.html"
    subprocess.run([*TILESTITCH, "compile", *RESNET, "--strategy", "graphturbo", "--html", written], check=True)
    page.take(written, HERE)
    for command, machine in (("map", "eyeriss"), ("simulate", "eyeriss"), ("simulate", "gemmini")):
        subprocess.run([*TILESTITCH, command, "resnet18:small", "--machine", machine, "--html", written], check=True)
        page.take(written, HERE)


def tutorial(folder: Path) -> None:
    """The picture of docs/tutorial.md, from the files that the page shows."""
    for name, text in FILE.findall((HERE.parent / "tutorial.md").read_text(encoding="utf-8")):
        (folder / name).write_text(text, encoding="utf-8")
    subprocess.run([sys.executable, "mlp.py"], cwd=folder, check=True)
    subprocess.run([*TILESTITCH, "compile", *TUTORIAL, "--html", "run.html"], cwd=folder, check=True)
    page.take(folder / "run.html", HERE, "tutorial", {"why": ""})


GROUPS = {"bars": bars, "panes": panes, "tutorial": tutorial}

if __name__ == "__main__":
    for name in sys.argv[1:] or GROUPS:
        with TemporaryDirectory() as folder:
            GROUPS[name](Path(folder))
