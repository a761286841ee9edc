import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import pytest
from starlette.responses import JSONResponse
from typer.testing import CliRunner

from service.cli import app, main
from tests.contract_server import FAILED, SUCCEEDED, UPDATE, problem, running, update_entry
from tests.pictures import save_digits

DONE = ("done", {"state": "succeeded"})


@pytest.fixture(scope="module")
def contract():
    with running() as contract:
        yield contract


@pytest.fixture
def server(contract, monkeypatch):
    contract.forget()
    contract.events = [
        ("progress", {"stage": "embedding", "progress": 0.1, "eta_seconds": 9.5}),
        DONE,
    ]
    contract.update = update_entry(**SUCCEEDED)
    monkeypatch.setenv("ZSTCI_URL", contract.url)
    return contract


@pytest.fixture
def zstci(server):
    """Run a command, and return what it printed."""

    def run(*arguments: object) -> str:
        result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    return run


@pytest.fixture
def refused(server, monkeypatch, capsys):
    """Run a command that must fail, and return its exit code and what it complained about."""

    def run(*arguments: object) -> tuple[object, list[str]]:
        monkeypatch.setattr("sys.argv", ["zstci", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr().err.splitlines()

    return run


@pytest.fixture
def folder(tmp_path):
    return save_digits(tmp_path / "digits", [0, 1])


def test_add_watches_the_update_and_says_what_came_of_it(zstci, folder):
    assert zstci("add", folder).splitlines() == [
        "new classes  2: zero, one",
        "images       12",
        "accuracy     87.5 % of 8 held-out images",
        "seconds      12.5",
        "version      2",
    ]
    assert json.loads(zstci("add", folder, "--json"))["version"] == 2


def test_add_can_leave_the_update_alone(zstci, server, folder):
    server.update = update_entry()
    said = zstci("add", folder, "--no-watch")
    assert said == f"update {UPDATE} is queued; watch it with: zstci updates watch {UPDATE}\n"
    assert json.loads(zstci("add", folder, "--no-watch", "--json"))["state"] == "queued"
    assert server.asked(f"/v1/updates/{UPDATE}/events") == []


def test_the_options_of_add_are_fields_of_the_form(zstci, server, folder):
    zstci("add", folder)
    assert dict(server.fields) == {"on_bad_image": "reject", "on_existing_class": "reject"}
    options = "--regularizer lwf --translator linear --classifier ncm --preset head --set train.epochs=2 --manual"
    more = "--set lr=1e-3 --instant --holdout 0.1 --on-bad-image skip --on-existing-class merge"
    zstci("add", folder, *options.split(), *more.split())
    assert dict(server.fields) == {
        "regularizer": "lwf",
        "translator": "linear",
        "classifier": "ncm",
        "preset": "head",
        "train.epochs": "2",
        "lr": "0.001",
        "activate": "manual",
        "instant": "true",
        "holdout": "0.1",
        "on_bad_image": "skip",
        "on_existing_class": "merge",
    }


def test_a_dry_run_lists_the_classes(zstci, folder):
    assert [line.split() for line in zstci("add", folder, "--dry-run").splitlines()[:3]] == [
        ["class", "images"],
        ["zero", "6", "new"],
        ["one", "6", "known"],
    ]
    assert json.loads(zstci("add", folder, "--dry-run", "--json"))["rejected"][0]["name"] == "one/7.png"


def test_a_version_that_waits_to_be_activated_says_how(zstci, server, folder):
    options = update_entry()["options"] | {"activate": "manual"}
    server.update = update_entry(**SUCCEEDED, options=options)
    assert zstci("add", folder).splitlines()[-1] == "version      2, not active: zstci versions activate 2"


def test_what_may_hold_known_classes_is_not_called_new(zstci, server, folder):
    options = update_entry()["options"] | {"on_existing_class": "merge"}
    server.update = update_entry(**SUCCEEDED, options=options)
    assert zstci("add", folder).splitlines()[0] == "classes   2: zero, one"


def test_add_stays_until_the_new_version_answers(zstci, server, folder):
    server.script["/readyz"] = [problem(503, "no_classes_yet", "none yet")] * 2
    zstci("add", folder)
    assert len(server.asked("/readyz")) == 3
    server.active = 1  # somebody rolled back meanwhile
    zstci("add", folder)
    assert len(server.asked("/readyz")) == 3


def test_classify_draws_the_scores(zstci, folder):
    path = folder / "digit-0/0.png"
    lines = zstci("classify", path, path, "--top-k", 2).splitlines()
    assert lines[:3] == [
        f"{path}  (version 2, margin 0.2500)",
        f"  zero  {'█' * 18 + ' ' * 6}  0.750  distance 0.2500",
        f"  one   {'█' * 6 + ' ' * 18}  0.250  distance 0.5000",
    ]
    assert lines[3:] == lines[:3]
    body = json.loads(zstci("classify", path, "--json"))
    assert body["data"][0]["image"] == str(path)
    assert body["data"][0]["predictions"][0]["class_id"] == "digit-0"


def test_classes_are_listed_renamed_and_deleted(zstci):
    assert zstci("classes").splitlines()[1].split() == ["digit-0", "zero", "6", "1"]
    assert json.loads(zstci("classes", "--json"))["data"][1]["name"] == "one"
    assert zstci("classes", "rename", "digit-0", "nought") == "class digit-0 is now called nought\n"
    assert json.loads(zstci("classes", "rename", "digit-0", "nought", "--json"))["name"] == "nought"
    assert zstci("classes", "delete", "digit-0") == "version 3 is without class digit-0: 1 classes\n"
    assert json.loads(zstci("classes", "delete", "digit-0", "--json"))["number"] == 3


def test_versions_are_listed_and_activated(zstci, server):
    assert [line[0] for line in zstci("versions").splitlines()[1:]] == ["*", " "]
    assert zstci("versions", "activate", 1) == "version 1 is active: 2 classes\n"
    body = json.loads(zstci("versions", "--json"))
    assert (body["active"], [entry["number"] for entry in body["data"]]) == (1, [2, 1])
    assert json.loads(zstci("versions", "activate", 2, "--json"))["active"] is True


def test_updates_are_listed_shown_watched_and_cancelled(zstci, server):
    assert len(zstci("updates", "--limit", 3).splitlines()) == 1 + 3
    assert len(json.loads(zstci("updates", "--json"))["data"]) == 5
    assert "accuracy     87.5 % of 8 held-out images" in zstci("updates", "show", UPDATE).splitlines()
    assert json.loads(zstci("updates", "show", UPDATE, "--json"))["options"]["regularizer"] == "lwf"
    assert zstci("updates", "watch", UPDATE).splitlines()[-1] == "version      2"
    assert zstci("updates", "cancel", UPDATE) == f"update {UPDATE} is running, and ends within seconds\n"
    assert json.loads(zstci("updates", "cancel", UPDATE, "--json"))["cancel_requested"] is True


def test_without_an_id_it_is_the_newest_update(zstci, refused, server):
    server.script["/v1/updates"] = [JSONResponse({"data": [update_entry(id=UPDATE)], "next_cursor": None})]
    assert json.loads(zstci("updates", "show", "--json"))["id"] == UPDATE
    server.script["/v1/updates"] = [JSONResponse({"data": [], "next_cursor": None})]
    assert refused("updates", "watch") == (2, ["zstci: there is no update yet; begin one with: zstci add DIR"])


def test_a_class_is_known_by_its_name_too(zstci, refused, server):
    assert zstci("classes", "rename", "one", "eins") == "class digit-1 is now called eins\n"
    assert zstci("classes", "delete", "one") == "version 3 is without class one: 1 classes\n"
    server.script["/v1/classes/nobody"] = [problem(404, "unknown_class", "the active version knows no such class")]
    assert refused("classes", "delete", "nobody") == (2, ["zstci: the active version knows no such class"])


def test_the_audit_log_is_listed(zstci):
    lines = zstci("audit", "--limit", 2).splitlines()
    assert len(lines) == 1 + 2
    assert lines[1].split("  ")[1:] == ["camera 7", "0123456789ab", "class_renamed", "digit-0", "done"]
    assert json.loads(zstci("audit", "--json"))["data"][2]["id"] == 1


def test_the_key_of_the_environment_is_sent_and_none_without(zstci, server, monkeypatch):
    zstci("classes")
    assert "Authorization" not in server.requests[-1].headers
    monkeypatch.setenv("ZSTCI_KEY", "secret")
    zstci("classes")
    assert server.requests[-1].headers["Authorization"] == "Bearer secret"


def test_a_refused_key_is_exit_code_2_and_says_what_to_do(refused, server):
    server.script["/v1/versions"] = [problem(401, "unauthenticated", "a key is needed: set ZSTCI_KEY")]
    assert refused("versions") == (2, ["zstci: a key is needed: set ZSTCI_KEY"])


def test_evaluate_counts_overall_and_per_class(zstci, server, tmp_path):
    for name, count in [("zero", 20), ("one", 3), ("nobody", 2)]:
        save_digits(tmp_path / "scans", [0], count=count).joinpath("digit-0").rename(tmp_path / "scans" / name)
    body = json.loads(zstci("evaluate", tmp_path / "scans", "--json"))

    assert [(part["name"], part["images"], part["correct"]) for part in body["classes"]] == [
        ("one", 3, 0),
        ("zero", 20, 20),
    ]
    assert (body["images"], body["unknown"]) == (23, ["nobody"])
    assert body["accuracy"] == pytest.approx(100 * 20 / 23)
    assert "overall 87.0 % of 23 images, version 2" in zstci("evaluate", tmp_path / "scans")
    asked = [request.query_params.get("version") for request in server.asked("/v1/classify")]
    assert asked == [None, "2", None, "2"]


def test_an_update_that_failed_is_exit_code_4_and_a_cancelled_one_5(refused, server, folder):
    server.update = update_entry(**FAILED)
    code, lines = refused("add", folder)
    assert (code, lines) == (4, [f"zstci: update {UPDATE} failed: {FAILED['error']['detail']}"])
    server.update = update_entry(state="cancelled")
    assert refused("updates", "watch", UPDATE, "--json")[0] == 5


def test_with_json_an_error_is_json_too_and_what_was_printed_stays_one_document(refused, server, folder):
    faults = [{"pointer": "/upload/a/1.png", "code": "empty_image", "detail": "no bytes"}]
    server.script["/v1/updates"] = [problem(422, "rejected_images", "one is bad", None, faults)]
    code, lines = refused("add", folder, "--json")
    assert (code, json.loads("".join(lines))) == (
        2,
        {"error": {"code": "rejected_images", "detail": "one is bad", "errors": faults}},
    )


def test_a_name_from_a_service_that_cannot_be_trusted_is_printed_literally(zstci, refused, server):
    entry = {"id": "x", "name": "[red]\x1b[31mno\nbird", "images": 1, "hops": 0}
    answer = {"predictions": [entry | {"class_id": "x", "distance": 0.5, "score": 1.0}], "margin": None, "version": 1}
    server.script["/v1/classes"] = [JSONResponse({"data": [entry], "next_cursor": None})]
    assert "[red]\\x1b[31mno\\nbird" in zstci("classes")
    server.script["/v1/classify"] = [JSONResponse({"data": [answer]})]
    assert "  [red]\\x1b[31mno\\nbird  █" in zstci("classify", __file__)
    server.script["/v1/classes"] = [problem(500, "internal_error", "bad \x1b]0;title\x07")]
    assert refused("classes") == (1, ["zstci: bad \\x1b]0;title\\x07"])


def test_the_key_of_the_environment_is_sent(zstci, server, monkeypatch):
    monkeypatch.setenv("ZSTCI_KEY", "secret")
    zstci("versions")
    assert server.requests[-1].headers["Authorization"] == "Bearer secret"


def test_migrate_names_the_database_and_its_revision(zstci, tmp_path, monkeypatch):
    monkeypatch.setenv("ZSTCI_HOME", str(tmp_path))
    found = json.loads(zstci("migrate", "--json"))
    assert found["database"] == f"sqlite:///{tmp_path}/zstci.db"
    assert zstci("migrate") == f"{found['database']} is at {found['revision']}\n"


def test_no_service_is_exit_code_3(refused):
    code, lines = refused("classes", "--url", "http://127.0.0.1:9")
    assert (code, lines) == (3, ["zstci: no service at http://127.0.0.1:9; start it with: make serve (or zstci serve)"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "nowhere"], "zstci: nowhere is neither a folder nor an archive; give a folder of "),
        (["evaluate", "nowhere"], "zstci: nowhere is no folder; give one of class-name/image.jpg"),
        (["versions", "activate", "9"], "zstci: no version 9; there are 1 to 2"),
        (["classes", "--url", "nonsense"], "zstci: 'nonsense' is no address of a service; give one such as "),
        (["reproduce", "digits", "--regularizer", "lfw"], "zstci: unknown regularizer 'lfw'; choose one of: "),
        (["classify", "nope.jpg"], "zstci: Invalid value for 'IMG...': file 'nope.jpg' does not exist; see: "),
        (["add", "x", "--set", "foo"], "zstci: Invalid value for --set: 'foo' must look like train.epochs=5; see: "),
        (["add"], "zstci: Missing argument 'DIR'; see: "),
        (["clasify"], "zstci: No such command 'clasify'"),
        (["classes", "--nonsense"], "zstci: No such option: --nonsense"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(refused, monkeypatch, tmp_path, arguments, said):
    monkeypatch.chdir(tmp_path)
    code, [line] = refused(*arguments)
    assert code == 2
    assert line.startswith(said)
    code, lines = refused(*arguments, "--json")
    document = json.loads("".join(lines))["error"]
    assert (code, f"zstci: {document['detail']}", bool(document["code"])) == (2, line, True)


@pytest.mark.parametrize("below", [".", "digit-1"])
def test_a_folder_that_cannot_be_read_is_one_line(refused, folder, below):
    (folder / below).chmod(0)
    with _as_a_stranger():
        code, [line] = refused("add", folder)
    (folder / below).chmod(0o755)
    assert (code, "cannot be read (Permission denied)" in line) == (2, True)


@contextmanager
def _as_a_stranger():
    """Root may read everything, so it is somebody else for a moment."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(mine)


def test_a_group_without_a_command_shows_its_help_and_no_error(refused):
    assert refused("keys") == (2, [])


def test_every_rejected_image_is_listed(refused, server, folder):
    faults = [{"pointer": f"/upload/a/{i}.png", "code": "empty_image", "detail": f"reason {i}"} for i in range(30)]
    server.script["/v1/updates"] = [problem(422, "rejected_images", "30 are bad (reason 0)", None, faults)]
    code, lines = refused("add", folder)
    assert code == 2
    assert lines[:2] == ["zstci: 30 are bad (reason 0)", "  a/1.png: reason 1"]
    assert (len(lines), lines[-1]) == (22, "  and 9 more")


def test_bad_images_of_a_query_are_called_by_their_names(refused, server, folder):
    faults = [{"pointer": "/images/1", "code": "empty_image", "detail": "the image has no bytes"}]
    server.script["/v1/classify"] = [problem(422, "empty_image", "image 1: no bytes", None, faults)] * 2
    good, bad = folder / "digit-0/0.png", folder / "digit-1/0.png"
    assert refused("classify", good, bad) == (2, [f"zstci: {bad}: the image has no bytes"])


def test_evaluating_folders_that_the_service_does_not_know_is_refused(refused, folder):
    code, [line] = refused("evaluate", folder)
    assert (code, line.startswith("zstci: the service knows none of these classes")) == (2, True)


def test_images_beside_the_class_folders_are_refused_by_evaluate(refused, folder):
    (folder / "stray.png").write_bytes(b"x")
    code, [line] = refused("evaluate", folder)
    assert code == 2
    assert "stray.png does not lie in" in line


def test_ctrl_c_while_watching_says_how_to_go_on(server):
    """A real process and a real signal; the stream never says that the update is done."""
    server.update = update_entry(state="running")
    server.events = [("state", {"state": "running"})]
    environment = {**os.environ, "ZSTCI_URL": server.url}
    command = [sys.executable, "-m", "service.cli", "updates", "watch", UPDATE]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while not server.asked(f"/v1/updates/{UPDATE}/events"):
        assert process.poll() is None
        time.sleep(0.05)
    said, complaint = _interrupted(process)

    assert (process.returncode, said) == (130, "")
    assert complaint.strip().endswith(
        f"watch it again with: zstci updates watch {UPDATE}, or cancel it with: zstci updates cancel {UPDATE}"
    )


def _interrupted(process):
    """Python drops an interrupt that falls into a finalizer; a person presses again, and so does this."""
    for _ in range(10):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=6)
    process.kill()
    raise AssertionError("ten interrupts did not end it")


def test_help_does_not_wait_for_torch_or_for_the_web():
    code = "import sys, service.cli; sys.exit(', '.join({'torch', 'httpx', 'fastapi'} & set(sys.modules)) or 0)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
