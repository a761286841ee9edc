import io
import json
import socket
import tarfile
import threading
from functools import partial

import anyio
import pytest

from service.client.options import form_of
from service.client.upload import TarArchive, archive_of
from service.errors import BadArchive, BadClassName, TooLarge, WrongLayout
from tests.blocking import CLIENTS, connected
from tests.contract_server import UPDATE, busy, problem, running, update_entry
from tests.pictures import save_digits


@pytest.fixture(scope="module")
def contract():
    with running() as contract:
        yield contract


@pytest.fixture
def server(contract):
    contract.forget()
    return contract


@pytest.fixture(params=CLIENTS.values(), ids=list(CLIENTS))
def connect(request):
    """Each kind of client in turn."""
    return partial(connected, request.param)


@pytest.fixture
def client(connect, server):
    with connect(server.url, timeout=5) as client:
        yield client


def write(folder, *names, content=b"image"):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def test_a_folder_arrives_as_a_tar_with_every_image_under_its_class(client, server, tmp_path):
    folder = save_digits(tmp_path / "digits", [0, 1])
    update = client.add(folder)

    assert update.id == UPDATE
    assert update.entry.classes == ("zero", "one")
    assert server.files == ["digits.tar"]
    assert server.tar() == {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.png")}


def test_names_may_be_long_and_of_any_script(client, server, tmp_path):
    names = ["Fünfmännerfest/å.png", f"{'x' * 180}/{'y' * 180}.png", "鳥/🦜.png"]
    client.add(write(tmp_path, *names))
    assert set(server.tar()) == set(names)


def test_litter_is_left_at_home_and_links_are_followed(client, server, tmp_path):
    real = write(tmp_path / "real", "bird/1.png")
    folder = write(tmp_path / "f", "a/1.png", "a/.DS_Store", ".git/x", "__MACOSX/a/1.png", "a/Thumbs.db")
    (folder / "b").symlink_to(real / "bird")
    (folder / "a" / "2.png").symlink_to(real / "bird" / "1.png")
    client.add(folder)
    assert set(server.tar()) == {"a/1.png", "a/2.png", "b/1.png"}


def test_a_level_too_many_is_for_the_service_to_refuse_and_does_not_go_on_for_ever(client, server, tmp_path):
    folder = write(tmp_path / "f", "train/a/1.png", "train/a/deep/2.png")
    (folder / "train" / "round").symlink_to(folder)
    client.add(folder)
    assert set(server.tar()) == {"train/a/1.png"}


@pytest.mark.parametrize("names", [[], ["1.png"], [".hidden/1.png"]])
def test_a_folder_without_class_folders_is_not_sent(client, server, tmp_path, names):
    with pytest.raises(WrongLayout, match="class-name/image"):
        client.add(write(tmp_path, *names))
    assert server.requests == []


def test_what_is_not_there_or_cannot_be_read_is_named(client, tmp_path):
    with pytest.raises(WrongLayout, match="nowhere is neither a folder nor an archive"):
        client.add(tmp_path / "nowhere")
    folder = write(tmp_path / "f", "a/1.png")
    (folder / "a" / "2.png").symlink_to(tmp_path / "nowhere")
    with pytest.raises(WrongLayout, match="if it is a link, it leads nowhere"):
        client.add(folder)


def test_an_archive_is_sent_as_it_is(client, server, tmp_path):
    path = tmp_path / 'my "birds".zip'
    path.write_bytes(b"PK" + bytes(range(256)) * 5000)
    client.add(path)
    assert server.archive == path.read_bytes()
    assert server.files == ["my %22birds%22.zip"]


def test_classes_may_be_given_as_a_mapping_of_images_from_anywhere(client, server, tmp_path):
    write(tmp_path, "x/1.png", content=b"x")
    write(tmp_path, "y/1.png", "y/.2.png", content=b"y")
    client.add({"bird": [tmp_path / "x/1.png", str(tmp_path / "y/1.png"), tmp_path / "y/.2.png"], "bee": []})
    assert server.tar() == {"bird/1.png": b"x", "bird/1-1.png": b"y", "bird/2-.2.png": b"y"}
    with pytest.raises(WrongLayout, match="of class 'bird' is no file"):
        client.add({"bird": [tmp_path / "nowhere.png"]})


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a\\b"])
def test_a_class_name_that_would_leave_its_place_in_the_archive_is_refused(client, tmp_path, name):
    with pytest.raises(BadClassName):
        client.add({name: [write(tmp_path, "1.png") / "1.png"]})


def test_options_are_fields_and_what_is_not_given_is_not_sent(client, server, tmp_path):
    folder = write(tmp_path, "a/1.png")
    client.add(folder)
    assert server.fields == []
    client.add(
        folder,
        regularizer="lwf",
        preset="head",
        on_bad_image="skip",
        on_existing_class="merge",
        activate="manual",
        instant=True,
        holdout=0.1,
        overrides={"train.epochs": 5, "train.weight": None, "net.input.mean": [0.5], "net.weights": "none"},
    )
    assert dict(server.fields) == {
        "regularizer": "lwf",
        "preset": "head",
        "on_bad_image": "skip",
        "on_existing_class": "merge",
        "activate": "manual",
        "instant": "true",
        "holdout": "0.1",
        "train.epochs": "5",
        "train.weight": "null",
        "net.input.mean": "[0.5]",
        "net.weights": "none",
    }


def test_an_option_that_add_does_not_have_is_a_mistake_of_the_caller(client, server, tmp_path):
    with pytest.raises(TypeError, match="no option 'regulariser'; it takes: regularizer, "):
        client.add(write(tmp_path, "a/1.png"), regulariser="lwf")
    assert server.requests == []


def test_a_folder_is_never_whole_in_memory(tmp_path):
    folder = write(tmp_path, *[f"a/{i}.png" for i in range(4)], content=bytes(6_000_000))
    form = form_of(folder, {})

    async def in_threads() -> list[int]:
        return [len(piece) async for piece in form.in_threads()]

    for sizes in ([len(piece) for piece in form], anyio.run(in_threads)):
        assert sum(sizes) == len(form)
        assert max(sizes) <= 2**19


def test_a_dry_run_says_what_would_be_learnt(client, server, tmp_path):
    found = client.add(write(tmp_path, "a/1.png"), dry_run=True)
    assert server.requests[-1].query_params["dry_run"] == "true"
    assert [(part.name, part.known) for part in found.classes] == [("zero", False), ("one", True)]
    assert found.rejected[0].code == "empty_image"


def test_the_length_is_known_beforehand_and_progress_reaches_it(client, server, tmp_path):
    folder = write(tmp_path, *[f"a/{i}.png" for i in range(40)], content=bytes(50_000))
    told: list[tuple[int, int]] = []
    client.add(folder, on_upload=lambda *numbers: told.append(numbers))

    length = int(server.requests[-1].headers["Content-Length"])
    assert "Transfer-Encoding" not in server.requests[-1].headers
    assert told[-1] == (length, length)
    assert len(told) > 5
    assert [sent for sent, _ in told] == sorted({sent for sent, _ in told})


def test_a_busy_service_gets_the_same_upload_again_under_the_same_key(client, server, tmp_path):
    folder = write(tmp_path, "a/1.png", content=bytes(3_000_000))
    server.script["/v1/updates"] = [busy(), busy()]
    client.add(folder)
    keys = {request.headers["Idempotency-Key"] for request in server.asked("/v1/updates")}
    assert (len(server.asked("/v1/updates")), len(keys)) == (3, 1)
    assert len(server.tar()["a/1.png"]) == 3_000_000

    client.add(folder)
    client.add(folder, idempotency_key="mine")
    others = [request.headers["Idempotency-Key"] for request in server.requests[-2:]]
    assert others[1] == "mine"
    assert others[0] not in keys


def test_a_refusal_in_the_middle_of_an_upload_is_heard(client, server, tmp_path):
    folder = write(tmp_path, "a/1.png", content=bytes(30_000_000))
    server.script["/v1/updates"] = [problem(413, "too_large", "the body has too many bytes")]
    with pytest.raises(TooLarge, match="too many bytes") as caught:
        client.add(folder)
    assert caught.value.code == "too_large"


def test_an_upload_that_was_cut_off_is_sent_again(connect, tmp_path):
    folder = write(tmp_path, "a/1.png", content=bytes(2_000_000))
    heads: list[bytes] = []

    def serve() -> None:
        """Hang up on the first connection in the middle of the body; answer the second."""
        first, _ = listening.accept()
        with first:
            first.recv(10_000)
        second, _ = listening.accept()
        with second, second.makefile("rb") as sent:
            heads.extend(iter(sent.readline, b"\r\n"))
            sent.read(int(next(line for line in heads if line.lower().startswith(b"content-length")).split()[1]))
            body = json.dumps(update_entry()).encode()
            second.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        with connect(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=5) as client:
            assert client.add(folder).id == UPDATE
        thread.join()


def test_a_file_that_shrinks_or_vanishes_while_it_is_sent_stops_the_upload(tmp_path):
    folder = write(tmp_path / "f", "a/1.png", "b/1.png")
    archive = archive_of(folder)
    (folder / "b/1.png").write_bytes(b"im")
    with pytest.raises(BadArchive, match=r"b/1\.png became shorter while it was being sent"):
        list(archive)
    (folder / "b/1.png").unlink()
    with pytest.raises(BadArchive, match=r"b/1\.png cannot be read \(No such file or directory\)"):
        list(archive)


def test_the_tar_has_the_length_it_says_and_the_same_bytes_each_time(tmp_path):
    folder = write(tmp_path, "a/0.png", content=b"")
    write(folder, "a/511.png", content=bytes(511))
    write(folder, "a/512.png", content=bytes(512))
    write(folder, f"{'é' * 90}/513.png", content=bytes(513))
    archive = archive_of(folder)
    content = b"".join(archive)

    assert isinstance(archive, TarArchive)
    assert len(content) == len(archive)
    assert b"".join(archive) == content
    with tarfile.open(fileobj=io.BytesIO(content)) as opened:
        assert [member.size for member in opened] == [0, 511, 512, 513]
