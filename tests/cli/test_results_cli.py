"""`--html FILE` of map, simulate, explore, validate and fuse: whole or absent, and the command on it makes it again."""

import json
import shlex

import pytest

from tests.helpers.command import names_in, run
from tests.helpers.pages import summary_of
from tests.helpers.small_tree import small_tree

PRODUCT = "O[m,n] += A[m,k] * B[k,n]; m=12 n=8 k=16"
COMMANDS = {
    "map": (PRODUCT, "--machine", "dmazerunner-256", "--top", "2"),
    "simulate": (PRODUCT, "--machine", "dmazerunner-256", "--values", "floats"),
    "explore": (PRODUCT, "--machine", "dmazerunner-256", "--vary", "pes=16,64", "--workers", "1"),
    "validate": (PRODUCT, "--machine", "dmazerunner-256", "--mappings", "5", "--ragged"),
    "fuse": ("resnet18:small", "--plan", "dlfusion"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_says_how_to_make_it_again(tmp_path, command):
    """The command on it gives the same bytes; options about other files are not in it."""
    path = tmp_path / "some" / "page.html"
    result = run(command, *COMMANDS[command], "--html", path, "--quiet", "--json", tmp_path / "report.json")
    assert result.exit_code == 0, result.output
    summary = summary_of(path.read_text(encoding="utf-8"))
    assert summary["kind"] == command
    words = shlex.split(summary["command"])
    assert words[:2] == ["tilestitch", command]
    assert "--json" not in words
    before = path.read_bytes()
    path.unlink()
    assert run(*words[1:]).exit_code == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch, command):
    """In one line, with exit code 2, and without any file."""
    monkeypatch.chdir(tmp_path)
    result = run(command, *COMMANDS[command], "--html", "page.html", "--json", "page.html")
    assert result.exit_code == 2
    [line] = result.stderr.splitlines()
    assert "--html and --json both name page.html; choose two different paths" in line
    assert names_in(tmp_path) == []


def test_a_check_of_a_plan_has_no_page(tmp_path, monkeypatch):
    """It judges and searches nothing, so there is nothing to look at."""
    monkeypatch.chdir(tmp_path)
    result = run("fuse", "resnet18:small", "--check", "proof.json", "--html", "page.html")
    assert result.exit_code == 2
    assert "leave out --plan, --compare" in result.stderr
    assert names_in(tmp_path) == []


def page_of(tmp_path, *arguments):
    """The summary of the page of a command, which its own command gives again to the byte."""
    path = tmp_path / "page.html"
    result = run(*arguments, "--html", path, "--json", tmp_path / "report.json")
    assert result.exit_code == 0, result.output
    before = path.read_text(encoding="utf-8")
    summary = summary_of(before)
    assert run(*shlex.split(summary["command"])[1:]).exit_code == 0
    assert path.read_text(encoding="utf-8") == before
    return summary, result


def test_a_check_of_mappings_has_a_page_with_its_verdict(tmp_path):
    """Each line that it prints."""
    proofs = tmp_path / "proofs.json"
    asked = ("map", PRODUCT, "--machine", "dmazerunner-256")
    assert run(*asked, "--certificate", proofs, "--quiet").exit_code == 0
    summary, result = page_of(tmp_path, *asked, "--check", proofs)
    assert summary["kind"] == "checked"
    assert summary["report"]["checked"] == result.stdout.splitlines()
    assert "einsum: proven: no mapping has less edp than" in summary["report"]["checked"][0]


def test_a_false_proof_has_no_page(tmp_path):
    """It is refused in one line."""
    proofs = tmp_path / "proofs.json"
    asked = ("map", PRODUCT, "--machine", "dmazerunner-256")
    assert run(*asked, "--certificate", proofs, "--quiet").exit_code == 0
    found = json.loads(proofs.read_text())
    found["proofs"][0]["value"] -= 1
    proofs.write_text(json.dumps(found))
    result = run(*asked, "--check", proofs, "--html", tmp_path / "page.html")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert names_in(tmp_path) == ["proofs.json"]


def given_mapping(tmp_path):
    """The best mapping of the product in a file, and its line."""
    asked = ("map", PRODUCT, "--machine", "dmazerunner-256")
    assert run(*asked, "--json", tmp_path / "best.json", "--quiet").exit_code == 0
    best = json.loads((tmp_path / "best.json").read_text())["layers"][0]["mappings"][0]
    line = {"nest": PRODUCT, "factors": best["factors"], "orders": best["orders"]}
    path = tmp_path / "mapping.json"
    path.write_text(json.dumps(line))
    return path, line


def test_a_given_mapping_has_a_page_with_its_price_and_its_nest(tmp_path):
    """The JSON as it is, and the levels with their loops."""
    path, line = given_mapping(tmp_path)
    summary, _ = page_of(tmp_path, "map", PRODUCT, "--machine", "dmazerunner-256", "--mapping", path)
    assert summary["kind"] == "given"
    assert summary["report"] == json.loads((tmp_path / "report.json").read_text())
    drawn = {level["name"]: level for level in summary["mapping"]["levels"]}
    loops = {loop["name"]: loop["count"] for loop in drawn["DRAM"]["loops"]}
    assert loops == line["factors"]["dram"]
    assert sum(level["energy_pj"] for level in drawn.values()) == pytest.approx(summary["report"]["energy_pj"])


def test_priced_lines_have_a_page_with_every_line(tmp_path):
    """How many fit, do not fit and say nothing; the least EDP of those that fit."""
    nest = {"kind": "gemm", "extents": {"M": 12, "N": 8, "K": 16}}
    small = {"nest": nest, "factors": {"dram": {"M": 12, "K": 16}, "spatial": {"N": 8}}, "orders": {"dram": ["M", "K"]}}
    better = {"nest": nest, "factors": {"dram": {"M": 12}, "spm": {"K": 16}, "spatial": {"N": 8}}}
    better["orders"] = {"dram": ["M"], "spm": ["K"]}
    large = {
        "nest": {**nest, "extents": {"M": 512, "N": 512, "K": 16}},
        "factors": {"rf": {"M": 512, "N": 512, "K": 16}},
        "orders": {},
    }
    path = tmp_path / "lines.jsonl"
    path.write_text("\n".join(map(json.dumps, [large, {"nest": "nothing"}, small, better])) + "\n")
    summary, _ = page_of(tmp_path, "map", "--machine", "dmazerunner-256", "--evaluate", path)
    assert summary["kind"] == "priced"
    lines = [json.loads(one) for one in (tmp_path / "report.json").read_text().splitlines()]
    assert summary["report"] == lines
    assert [one.get("valid") for one in lines] == [False, None, True, True]
    assert [summary[name] for name in ("lines", "fitting", "wrong")] == [4, 2, 1]
    products = [one["cycles"] * one["energy_pj"] for one in lines[2:]]
    assert summary["best"]["line"] == 3 + products.index(min(products))


def test_mappings_on_a_tree_have_a_page(tmp_path):
    """With the report as it is; the command on it gives the same bytes."""
    machine = small_tree(tmp_path)
    summary, _ = page_of(tmp_path, "map", PRODUCT, "--machine", machine, "--objective", "energy")
    assert summary["kind"] == "tree"
    assert summary["report"] == json.loads((tmp_path / "report.json").read_text())
    assert summary["layers"][0]["certificate"] is None


def test_the_page_of_a_tree_has_its_certificates_and_so_has_that_of_their_check(tmp_path):
    """Problem, value and the layers; the check has its lines, and the machine."""
    (tmp_path / "spatial.yaml").write_text("- name: default\n  spatial_mapping: {D1: ['K, 4'], D2: ['C, 2']}\n")
    (tmp_path / "layers.yaml").write_text(
        "- {id: 0, name: one, operator_type: Gemm, equation: 'O[b][k]+=W[k][c]*I[b][c]', loop_dims: [B, K, C], "
        "loop_sizes: [4, 8, 8], operand_precision: {W: 8, I: 8, O: 16, O_final: 8}, "
        "operand_source: {I: 0, W: 0}}\n"
    )
    machine, proofs = small_tree(tmp_path), tmp_path / "proofs.json"
    asked = ("map", tmp_path / "layers.yaml", "--machine", machine, "--spatial", tmp_path / "spatial.yaml")
    summary, _ = page_of(tmp_path, *asked, "--objective", "energy", "--certificate", proofs)
    [proof] = json.loads(proofs.read_text())["proofs"]
    certificate = summary["layers"][0]["certificate"]
    assert [certificate[name] for name in ("problem", "layers")] == [proof[name] for name in ("problem", "layers")]
    assert certificate["value"] == f"no mapping has less energy than {proof['value']:,} fJ"
    assert certificate["opened"] == sum(choice["chains"] is not None for choice in proof["choices"])
    summary, result = page_of(tmp_path, *asked, "--check", proofs)
    assert summary["kind"] == "checked"
    assert summary["report"]["checked"] == result.stdout.splitlines()
    assert summary["picture"].startswith("<svg")
