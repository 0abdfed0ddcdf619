"""The documentation as a site: what is on it, whether its links lead somewhere, and that nothing is fetched."""

import json
import posixpath
import re
from inspect import isclass
from pathlib import Path

import click
import pytest
import yaml
from pydantic import BaseModel

import tilestitch
from docs.site import build
from docs.site.commands import command_reference
from docs.site.machine_format import Section, machine_format, sections
from docs.site.names import name_reference
from tests.helpers.browser import Browser, browser_or_reason
from tilestitch.cli.main import main
from tilestitch.hardware import file_models, unit_models

ROOT = Path(__file__).parent.parent.parent
MACHINE_PAGE = ROOT / "docs" / "reference" / "machine.md"

# The search of the site lies in a tree of its own.
TYPED = """
const field = document.activeElement.shadowRoot.querySelector("input");
field.value = arguments[0];
field.dispatchEvent(new Event("input", { bubbles: true }));
"""
FOUND = "return document.activeElement.shadowRoot.querySelector('dialog').innerText.includes('granule_bytes')"


class _Loader(yaml.SafeLoader):
    """Plain YAML; what names a Python object is read as nothing."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)


@pytest.fixture(scope="module")
def pages():
    return build.pages()


def navigation() -> list[str]:
    """The pages of the navigation, in order."""

    def inside(entries):
        for entry in entries:
            for target in entry.values():
                yield from [target] if isinstance(target, str) else inside(target)

    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Loader)
    return list(inside(config["nav"]))


def prose(markdown: str) -> str:
    return re.sub(r"^```.*?^```$|^    .*?$|`[^`\n]*`", "", markdown, flags=re.MULTILINE | re.DOTALL)


def test_every_page_is_in_the_navigation_once(pages):
    assert sorted(navigation()) == sorted(pages)


def test_links_of_the_site_lead_to_its_pages_and_files(pages):
    """Or to the repository, where the same file lies; headings are checked with the pages as GitHub shows them."""
    files = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*")}
    count = 0
    for page, text in pages.items():
        for link in re.findall(r"\]\(([^)#\s]+)[^)\s]*\)", prose(text)):
            count += 1
            if link.startswith(build.REPOSITORY):
                assert (ROOT / link.removeprefix(build.REPOSITORY)).exists(), f"{page}: {link}"
            elif "://" not in link:
                target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
                assert target in pages or target in files, f"{page}: {link}"
    assert count > 100


@pytest.mark.parametrize(
    "text, source, page, expected",
    [
        ("[a](b.md#c)", "docs/a.md", "a.md", "[a](b.md#c)"),
        ("[a](../CHANGELOG.md)", "docs/a.md", "a.md", "[a](changelog.md)"),
        ("[a](../model.md#c)", "docs/guides/a.md", "guides/a.md", "[a](../model.md#c)"),
        ("[a](docs/model.md)", "CONTRIBUTING.md", "contributing.md", "[a](model.md)"),
        ("[a](../src/x.py)", "docs/a.md", "a.md", f"[a]({build.REPOSITORY}src/x.py)"),
        ("![a](pictures/x.svg)", "docs/a.md", "a.md", "![a](pictures/x.svg)"),
        ("[a](https://b.org/c.md) [d](#e)", "docs/a.md", "a.md", "[a](https://b.org/c.md) [d](#e)"),
        ("```\n[a](b.py)\n```\n", "docs/a.md", "a.md", "```\n[a](b.py)\n```\n"),
    ],
)
def test_a_link_leads_to_the_page_or_to_the_repository(text, source, page, expected):
    assert build.with_links(text, source, page) == expected


def test_the_reference_of_machines_is_that_of_the_models(request):
    """`pytest --update-golden` writes it anew."""
    if request.config.getoption("--update-golden"):
        MACHINE_PAGE.write_text(machine_format(), encoding="utf-8")
    assert MACHINE_PAGE.read_text(encoding="utf-8") == machine_format()


def test_every_key_of_a_machine_has_a_meaning():
    """In each model that the file's leads to; and it leads to all of them."""
    found = {one.model for one in sections(Section("", file_models.MachineModel))}
    for model in found:
        assert [key for key, field in model.model_fields.items() if not field.description] == [], model
        assert model.__doc__, model
    values = [*vars(file_models).values(), *vars(unit_models).values()]
    models = {value for value in values if isclass(value) and issubclass(value, BaseModel)}
    bases = {base for model in models for base in model.__mro__[1:]}
    assert models - bases - {BaseModel} <= found


def test_a_key_that_models_get_is_on_the_page(monkeypatch):
    """Nothing has to be entered by hand."""
    page = machine_format()
    for place in ("`granule_bytes`", "## `memories[]`", "| `channels` |", "`units.NAME` of kind `array`"):
        assert place in page
    wider = dict(file_models.LinkModel.model_fields, lanes=file_models.SetupModel.model_fields["dma_cycles"])
    monkeypatch.setattr(file_models.LinkModel, "__pydantic_fields__", wider)
    assert "| `lanes` | a whole number of cycles of at least 0 |" in machine_format()
    assert "| `lanes` | a whole number of cycles of at least 0 |" not in page


def test_every_command_and_option_is_on_its_page():
    page = command_reference()

    def check(command, names):
        if isinstance(command, click.Group):
            for name, inner in command.commands.items():
                check(inner, [*names, name])
            return
        (section,) = re.findall(rf"^## {' '.join(names)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
        for one in command.params:
            if isinstance(one, click.Option):
                assert re.search(rf"^\| `[^`]*{one.opts[-1]}\b[^`]*` \| \S", section, re.MULTILINE), (names, one.opts)

    check(main, [])


def test_every_public_name_is_on_its_page():
    named = re.findall(r"^::: tilestitch\.(\w+)$", name_reference(), re.MULTILINE)
    assert sorted(named) == sorted(set(tilestitch.__all__) - {"__version__"})


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path, request):
    """Opened from disk, it searches, in a browser."""
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for place in ("src", "docs/site/comments.py"):
        assert config.count(f"[{place}]") == 1
        config = config.replace(f"[{place}]", f"[{ROOT / place}]")
    (tmp_path / "mkdocs.yml").write_text(config, encoding="utf-8")
    build.prepare(tmp_path / "out" / "docs")
    assert build.render(tmp_path) == 0
    site = tmp_path / "site"
    assert (site / "reference" / "python.html").read_text(encoding="utf-8").count("samples of the whole machine") == 1
    driver = browser_or_reason(request)
    try:
        driver.get((site / "index.html").as_uri())
        window = Browser(driver)
        window.settle()
        driver.find_element("tag name", "body").send_keys("/")
        window.wait("return document.activeElement.shadowRoot?.querySelector('input')")
        window.run(TYPED, "granule")
        window.wait(FOUND)
        driver.get((site / "reference" / "python.html").as_uri())
        events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
        asked = [
            event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"
        ]
        assert asked
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
        assert driver.get_log("browser") == []
    finally:
        driver.quit()
