"""The server: what it answers, to whom, and that it stays inside its folder."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress

import onnx
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

import tilestitch
from tests.helpers.serving import started
from tilestitch.api import zoo_model
from tilestitch.cli import main as cli
from tilestitch.hardware.compilable import expect_compilable
from tilestitch.hardware.load import load_machine, machine_text
from tilestitch.serve.app import application
from tilestitch.serve.workbench import KEPT, Workbench

TOKEN, PORT = "token-of-the-tests", 4321
ADDRESS = f"http://127.0.0.1:{PORT}"
HEADERS = {"X-Tilestitch-Token": TOKEN}
TVM = {"network": "resnet18:small", "machine": "toy", "batch": 4, "strategy": "tvm"}


@pytest.fixture
def folder(tmp_path):
    """A folder with a network and a machine, and with things that are not its own."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    onnx.save(zoo_model("alexnet:small"), inside / "mine.onnx")
    onnx.save(zoo_model("alexnet:small"), outside / "secret.onnx")
    (inside / "own.yaml").write_text(machine_text("toy")[0].replace("name: toy", "name: own"))
    (inside / "link.onnx").symlink_to(outside / "secret.onnx")
    (inside / ".hidden.onnx").write_bytes(b"")
    return inside


@pytest.fixture
def client(folder):
    """What the page is to the server."""
    return TestClient(application(Workbench(folder), TOKEN, PORT), base_url=ADDRESS, headers=HEADERS)


def post(client, path, status=200, **body):
    answer = client.post(path, content=json.dumps(body))
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.quick
def test_the_first_page_has_the_token_and_asks_nobody_else(client):
    """Its script and style come from here, and it may load nothing else."""
    answer = client.get("/")
    assert answer.status_code == 200
    assert f'content="{TOKEN}"' in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    for name in ("serve.js", "serve.css"):
        assert "http://" not in client.get(f"/{name}").text.replace("http://www.w3.org/", "")
    assert "access-control-allow-origin" not in answer.headers


PATHS = [("GET", path) for path in ("/", "/serve.js", "/serve.css", "/choices", "/page/0", "/nothing")]


@pytest.mark.parametrize("method, path", [*PATHS, ("POST", "/compile"), ("POST", "/save"), ("OPTIONS", "/compile")])
@pytest.mark.parametrize(
    "headers",
    [
        {"X-Tilestitch-Token": ""},
        {"X-Tilestitch-Token": TOKEN[:-1]},
        {**HEADERS, "Host": "evil.example"},
        {**HEADERS, "Host": "127.0.0.1"},
        {**HEADERS, "Host": f"127.0.0.1.evil.example:{PORT}"},
        {**HEADERS, "Origin": "http://evil.example"},
        {**HEADERS, "Origin": "null"},
    ],
)
def test_a_request_from_elsewhere_is_refused(client, method, path, headers):
    """Without the token, for another name of this address, or from a page of another site."""
    answer = client.request(method, path, headers=headers)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.quick
def test_the_token_in_an_address_changes_nothing(client):
    """It opens pages; what changes something needs it in a header, which no other site can send."""
    bare = TestClient(client.app, base_url=ADDRESS)
    assert bare.get("/", params={"token": TOKEN}).status_code == 200
    assert bare.get("/", params={"token": "é"}).status_code == 403
    assert bare.post("/compile", params={"token": TOKEN}, content=json.dumps(TVM)).status_code == 403
    assert bare.get("/", params={"token": TOKEN}, headers={"Host": f"localhost:{PORT}"}).status_code == 200


def test_the_choices_are_what_is_built_in_and_what_is_in_the_folder(client):
    """No hidden files, no links to elsewhere, every machine can be compiled for."""
    found = client.get("/choices").json()
    networks = [one["name"] for one in found["networks"]]
    assert [name for name in networks if name.endswith(".onnx")] == ["mine.onnx"]
    assert {"resnet50", "resnet50:small", "bert-base-128"} < set(networks)
    machines = [one["name"] for one in found["machines"]]
    assert machines[0] == "own.yaml"
    assert "stcp920" in machines
    for name in machines[1:]:
        expect_compilable(load_machine(name))
    assert "graphturbo" in [one["name"] for one in found["strategies"]]


def test_a_compilation_has_its_price_and_what_can_be_changed(client):
    """Parts of the gap add up, and every number is the report's."""
    found = post(client, "/compile", **TVM)
    report = tilestitch.compile("resnet18:small", "toy", strategy="tvm", batch=4).report
    assert found["latency_cycles"] == report.latency_cycles
    assert found["bound_cycles"] == report.bound_cycles
    assert sum(part["cycles"] for part in found["gap"]["parts"]) == pytest.approx(found["gap"]["cycles"])
    assert found["gap"]["cycles"] == pytest.approx(report.latency_cycles - report.bound_cycles)
    assert len(found["groups"]) == len(report.kernels)
    assert {piece["scope"] for piece in found["order"]} == {"ddr"}
    assert all(piece["stays"] == ["ddr"] for piece in found["order"])
    operators = [name for group in found["groups"] for name in group["operators"]]
    assert sorted(operators) == sorted(name for kernel in report.kernels for name in kernel.operators)


def test_an_edit_is_compiled_and_earlier_ones_stay(client):
    """Each has a key; also those that are no longer in memory."""
    first = post(client, "/compile", **TVM)
    found = post(client, "/compile", key=0, edit={"kind": "keep-all", "group": 0, "scope": "lb"})
    assert found["key"] == 1
    assert found["order"][0]["stays"] == ["lb"]
    assert found["latency_cycles"] != first["latency_cycles"]
    for key in range(1, KEPT + 1):
        post(client, "/compile", key=key, edit={"kind": "keep-all", "group": key, "scope": "lb"})
    again = post(client, "/compile", key=0, edit={"kind": "keep-all", "group": 0, "scope": "lb"})
    assert {**again, "key": 1} == found
    schedule, batch = found["schedule"], found["batch_per_iteration"]
    given = {"network": TVM["network"], "machine": "toy", "batch": 4, "batch_per_iteration": batch}
    assert post(client, "/compile", **given, schedule=schedule)["latency_cycles"] == found["latency_cycles"]


def test_trees_that_compile_takes_are_built_in(client):
    """A machine whose units do not share a memory is not."""
    known = {one["name"] for one in client.get("/choices").json()["machines"]}
    assert {"stcp920", "nvdla", "simba"} <= known
    assert "gemm-l1" not in known
    assert post(client, "/compile", **{**TVM, "machine": "gemmini"})["latency_cycles"] > 0


def test_a_plan_of_fused_blocks_is_shown_and_cannot_be_changed(client):
    found = post(client, "/compile", **{**TVM, "strategy": "one-block"})
    assert found["latency_cycles"] > 0
    assert found["not_editable"].startswith("resnet18:small by one-block: is a plan of fused blocks")
    error = post(client, "/compile", 400, key=0, edit={"kind": "merge", "group": 0})["error"]
    assert error == found["not_editable"]


@pytest.mark.parametrize(
    "body, message",
    [
        ({**TVM, "network": "../outside/secret.onnx"}, "is not an .onnx file in the folder, and zoo: unknown network"),
        ({**TVM, "network": "link.onnx"}, "is not an .onnx file in the folder"),
        ({**TVM, "network": ".hidden.onnx"}, "is not an .onnx file in the folder"),
        ({**TVM, "machine": "/etc/passwd"}, "is neither built in nor a .yaml file in the folder"),
        ({**TVM, "strategy": "tvn"}, "strategy 'tvn' is not known"),
        ({**TVM, "strategy": "plan.json"}, "strategy 'plan.json' is not known"),
        ({**TVM, "batch": 0}, "request: batch: expected a whole number from 1"),
        ({**TVM, "more": 1}, 'request: unknown field "more"'),
        ({**TVM, "machine": "toy", "network": "resnet18", "batch": 512}, "Try: a smaller --batch"),
        ({"key": 5, "edit": {"kind": "merge", "group": 0}}, "compilation 5: there has been no such compilation"),
        ({"key": 0, "edit": {"kind": "fuse", "group": 0}}, "request: edit.kind: expected one of border, merge"),
        ({"key": 0, "edit": {"kind": "merge", "group": "0"}}, "request: edit.group: expected a whole number"),
        ({"key": 0, "edit": {"kind": "keep", "place": 0, "scope": "l2"}}, "expected one of lb, gb, ddr"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(client, body, message):
    """With the status that says whose fault it is."""
    error = post(client, "/compile", 400, **body)["error"]
    assert message in error
    assert "Traceback" not in error


def test_what_is_no_json_or_too_long_is_refused(client):
    assert client.post("/compile", content=b"{").status_code == 400
    assert client.post("/compile", content=b"[1]").json() == {"error": "request: expected an object, found a list"}
    assert client.post("/compile", content=b" " * (2**20 + 1)).status_code == 413


def test_a_schedule_is_saved_and_compile_takes_it(client, folder, monkeypatch):
    """In the folder, with the network and the machine that lie there; the command that is shown gives the same."""
    post(client, "/compile", network="mine.onnx", machine="own.yaml", batch=2, strategy="stay-in-lb")
    found = post(client, "/compile", key=0, edit={"kind": "merge", "group": 0})
    saved = post(client, "/save", key=1, name="a b.json", replace=False)
    assert saved == {
        "saved": "a b.json",
        "command": "tilestitch compile mine.onnx --machine own.yaml --from 'a b.json'",
    }
    monkeypatch.chdir(folder)
    arguments = ["compile", "mine.onnx", "--machine", "own.yaml", "--from", "a b.json", "--json", "-"]
    result = CliRunner().invoke(cli.main, arguments, prog_name="tilestitch")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["simulated"]["latency_cycles"] == found["latency_cycles"]


def test_a_file_that_is_there_is_replaced_only_where_somebody_says_so(client, folder):
    """And nothing is left beside it."""
    post(client, "/compile", **TVM)
    (folder / "plan.json").write_text("mine")
    before = sorted(os.listdir(folder))
    refused = post(client, "/save", 409, key=0, name="plan.json", replace=False)
    assert refused == {"error": "plan.json: is there already; replace it, or choose another name", "exists": True}
    assert (folder / "plan.json").read_text() == "mine"
    post(client, "/save", key=0, name="plan.json", replace=True)
    assert json.loads((folder / "plan.json").read_text())["format"] == "tilestitch.stage"
    assert sorted(os.listdir(folder)) == before


NO_PLAIN_NAMES = (
    *("../plan.json", "/tmp/plan.json", "a/plan.json", ".plan.json", "plan.txt"),
    *("", "a\0.json", "a\\b.json", "é.json"),
)


@pytest.mark.quick
def test_nothing_is_written_outside_the_folder(client, folder):
    post(client, "/compile", **TVM)
    before = sorted(path for path in folder.parent.rglob("*"))
    for name in NO_PLAIN_NAMES:
        error = post(client, "/save", 400, key=0, name=name, replace=True)["error"]
        assert "expected a plain name that ends in .json" in error, name
        assert sorted(path for path in folder.parent.rglob("*")) == before, name


def test_a_link_is_not_written_through(client, folder):
    """Nor replaced."""
    post(client, "/compile", **TVM)
    (folder / "link.json").symlink_to(folder.parent / "outside" / "new.json")
    for replace in (False, True):
        assert "choose another name" in post(client, "/save", 400, key=0, name="link.json", replace=replace)["error"]
    assert not (folder.parent / "outside" / "new.json").exists()


def test_the_page_of_a_compilation_is_that_of_html(client):
    """It may run its own script, and load nothing."""
    post(client, "/compile", **TVM)
    answer = client.get("/page/0")
    assert answer.status_code == 200
    assert answer.text.startswith("<!DOCTYPE html>")
    assert "resnet18:small on toy, batch 4, by tvm" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert client.get("/page/7").status_code == 400


def test_the_server_answers_while_it_compiles(folder):
    """And compiles one thing at a time, even where several ask."""
    running, most, free = [0], [0], threading.Event()

    def progress(step, done, total):
        if step == "simulate":
            running[0] += 1
            most[0] = max(most[0], running[0])
            free.wait(20)
            running[0] -= 1

    client = TestClient(application(Workbench(folder, progress), TOKEN, PORT), base_url=ADDRESS, headers=HEADERS)
    found = []
    threads = [threading.Thread(target=lambda: found.append(post(client, "/compile", **TVM))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert client.get("/").status_code == 200
    assert found == []
    free.set()
    for thread in threads:
        thread.join()
    assert sorted(one["key"] for one in found) == [0, 1]
    assert most == [1]


def test_the_command_prints_its_address_and_ends_with_ctrl_c(folder):
    """One line, on the loopback address alone, with another token each time; 130 as for any other command."""
    server, address = started(folder)
    assert address.startswith("http://127.0.0.1:")
    port = int(address.split(":")[2].split("/")[0])
    assert len(address.split("token=")[1]) >= 32
    with socket.create_connection(("127.0.0.1", port), timeout=10):
        pass
    server.send_signal(signal.SIGINT)
    out, error = server.communicate(timeout=60)
    assert (server.returncode, out, error) == (130, "", "\nerror: interrupted\n")


def test_an_interruption_at_once_still_ends_in_order(folder):
    """Whoever is told the address may connect and interrupt at that moment: the server takes it, nobody else."""
    program = """if True:
        import signal, socket
        from pathlib import Path
        from tilestitch.serve.server import serve

        def ready(address):
            connected.append(socket.create_connection(("127.0.0.1", int(address.split(":")[2].split("/")[0]))))
            signal.raise_signal(signal.SIGINT)
            print("taken")

        connected = []
        try:
            serve(Path("."), 0, ready)
        except KeyboardInterrupt:
            print("ended")
    """
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("taken\nended\n", "")


def test_a_port_that_is_taken_is_an_error(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(cli.main, ["serve", "--port", str(port)], prog_name="tilestitch")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: --port {port}: cannot be opened (")


def test_a_folder_that_is_not_there_is_an_error():
    result = CliRunner().invoke(cli.main, ["serve", "--folder", "nowhere"], prog_name="tilestitch")
    assert (result.exit_code, result.stderr) == (2, "error: --folder nowhere: there is no such folder\n")


def test_without_its_packages_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = CliRunner().invoke(cli.main, ["serve"], prog_name="tilestitch")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: tilestitch serve needs the packages starlette and uvicorn, which are not installed; install them with: "
        "pip install 'tilestitch[serve]'\n"
    )


def test_the_command_has_help():
    """With an example, which no other test can run to its end."""
    result = CliRunner().invoke(cli.main, ["serve", "--help"], prog_name="tilestitch")
    assert result.exit_code == 0
    assert "Example:\n    tilestitch serve --open\n" in result.output


@pytest.mark.slow
def test_ctrl_c_ends_the_server_while_it_compiles(folder):
    """At the next step of the compilation."""
    server, address = started(folder)
    base, token = address.split("/?token=")
    long = {"network": "bert-large-384", "machine": "stcp920", "batch": 8, "strategy": "graphturbo"}  # 7 s of CPU
    body = json.dumps({**TVM, **long})
    asked = urllib.request.Request(f"{base}/compile", body.encode(), {"X-Tilestitch-Token": token})

    def ask():
        with suppress(OSError):
            urllib.request.urlopen(asked, timeout=120)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(2)
    assert thread.is_alive()
    server.send_signal(signal.SIGINT)
    _, error = server.communicate(timeout=60)
    assert server.returncode == 130
    assert error.endswith("error: interrupted\n")
    assert "Traceback" not in error
    thread.join()
