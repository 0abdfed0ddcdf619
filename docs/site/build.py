"""Build the site: `python -m docs.site.build`, from the root of the repository (`make docs`).

The pages of docs/, those that lie beside it, and those that are written from the code go to out/docs with links as the
site has them; zensical renders that folder by mkdocs.yml into site/. A link that leads nowhere is an error.
"""

import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

from docs.site.commands import command_reference
from docs.site.names import name_reference

ROOT = Path(__file__).parent.parent.parent
REPOSITORY = "https://github.com/tilestitch/tilestitch/blob/main/"
COPIED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}  # what lies beside docs/
WRITTEN = {"reference/commands.md": command_reference, "reference/python.md": name_reference}
SHOWN = (".css", ".js", ".png", ".svg")  # files of docs/ that the site has besides pages
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)((?:#[^)\s]*)?)(?=\))")
FENCED = re.compile(r"^(`{3,}).*?^\1", re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str]:
    """The Markdown of every page, by its place in the site."""
    found = {}
    for source in sorted((ROOT / "docs").rglob("*.md")):
        name = source.relative_to(ROOT / "docs").as_posix()
        found[name] = with_links(source.read_text(encoding="utf-8"), f"docs/{name}", name)
    for source, name in COPIED.items():
        found[name] = with_links((ROOT / source).read_text(encoding="utf-8"), source, name)
    return found | {name: written() for name, written in WRITTEN.items()}


def with_links(markdown: str, source: str, page: str) -> str:
    """The text of a file of the repository as a page of the site: links lead to pages, or else to the repository."""
    folder, inside = posixpath.dirname(source), posixpath.dirname(page)

    def on_site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[1]))
        place = COPIED.get(target, target.removeprefix("docs/"))
        on_the_site = target in COPIED or (target.startswith("docs/") and place.endswith((".md", *SHOWN)))
        return (posixpath.relpath(place, inside or ".") if on_the_site else REPOSITORY + target) + link[2]

    parts, end = [], 0
    for fence in FENCED.finditer(markdown):
        parts += [LINK.sub(on_site, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(on_site, markdown[end:])])


def prepare(folder: Path) -> None:
    """Write what is rendered into a folder, which holds nothing else afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in pages().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for source in sorted((ROOT / "docs").rglob("*")):
        if source.suffix in SHOWN:
            target = folder / source.relative_to(ROOT / "docs")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def render(root: Path) -> int:
    """Run zensical in a folder with mkdocs.yml; 0 where there is no warning."""
    return subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=root, check=False).returncode


if __name__ == "__main__":
    prepare(ROOT / "out" / "docs")
    sys.exit(render(ROOT))
