import errno
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec  # type: ignore[import-untyped]
import pytest
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

from service.config import Settings
from service.errors import BadUpload, CorruptBundle, StorageFull, StorageUnreachable
from service.storage import artifacts as module
from service.storage.artifacts import Artifacts, artifacts_url
from tests.object_store import BUCKET, object_store
from zstci.errors import InvalidConfig


class Elsewhere(MemoryFileSystem):  # type: ignore[misc]
    """The same files as memory://, under other names."""

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = super()._strip_protocol(f"memory://{path.partition('://')[2]}" if "://" in path else path)
        return stripped


class FullDisk(Elsewhere):
    """Somebody else's storage that has no room left."""

    protocol = "full"

    def put_file(self, *arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Cut(Elsewhere):
    """Somebody else's storage, to which the line is cut after the first file."""

    protocol = "cut"

    def put_file(self, lpath, rpath, **options) -> None:
        if Path(rpath).name != "a.bin":
            raise ConnectionError("cut")
        super().put_file(lpath, rpath, **options)


@pytest.fixture(scope="module")
def s3() -> Iterator[None]:
    """A real endpoint, found as a service finds it: by the environment."""
    with object_store() as environment, pytest.MonkeyPatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        fsspec.get_filesystem_class("s3").clear_instance_cache()  # they know the endpoint of when they were made
        yield


@pytest.fixture(params=["local", "file", "memory", "s3"])
def artifacts(request: pytest.FixtureRequest, tmp_path: Path) -> Artifacts:
    name = uuid.uuid4().hex
    if request.param == "s3":
        request.getfixturevalue("s3")
        return Artifacts(f"s3://{BUCKET}/{name}", tmp_path / "cache")
    url = {"local": f"{tmp_path}/{name}", "file": f"file://{tmp_path}/{name}", "memory": f"memory://{name}"}
    return Artifacts(url[request.param], tmp_path / "cache")


def test_one_file_is_read_without_a_copy_of_the_others(artifacts, tmp_path):
    artifacts.put(a_folder(tmp_path, "upload.json"), "uploads/a")

    assert artifacts.read("uploads/a", "upload.json") == b"{}"
    assert artifacts.copies("uploads") == []
    with pytest.raises(BadUpload, match="send them again"):
        artifacts.read("uploads/b", "upload.json")


def a_folder(tmp_path: Path, last: str = "version.json", text: str = "one") -> Path:
    folder = tmp_path / f"work-{uuid.uuid4().hex}"
    (folder / "images").mkdir(parents=True)
    (folder / "a.bin").write_bytes(bytes(range(256)))
    (folder / "images" / "000001.jpg").write_text(text)
    (folder / last).write_text("{}")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_comes_back_as_it_was_put_and_is_gone_from_where_it_was(artifacts, tmp_path):
    folder = a_folder(tmp_path)
    expected = content(folder)
    assert not artifacts.exists("versions/a1")
    artifacts.put(folder, "versions/a1")

    assert artifacts.exists("versions/a1")
    assert not folder.exists()
    assert content(artifacts.local("versions/a1")) == expected
    assert artifacts.local("versions/a1") == artifacts.local("versions/a1")


def test_keys_are_listed_by_kind(artifacts, tmp_path):
    assert artifacts.keys("versions/") == []
    for key in ("versions/b", "versions/a", "uploads/c"):
        artifacts.put(a_folder(tmp_path, "upload.json" if key == "uploads/c" else "version.json"), key)

    assert artifacts.keys("versions/") == artifacts.keys("versions") == ["versions/a", "versions/b"]
    assert artifacts.keys("uploads/") == ["uploads/c"]
    with pytest.raises(ValueError, match="choose one of: versions/, uploads/"):
        artifacts.keys("")


def test_what_is_deleted_is_gone_everywhere_and_may_be_deleted_again(artifacts, tmp_path):
    artifacts.put(a_folder(tmp_path, "upload.json"), "uploads/a")
    artifacts.local("uploads/a")
    artifacts.delete("uploads/a")
    artifacts.delete("uploads/a")

    assert not artifacts.exists("uploads/a")
    assert artifacts.keys("uploads/") == []
    assert not list(tmp_path.rglob("000001.jpg"))
    with pytest.raises(BadUpload, match="send them again"):
        artifacts.local("uploads/a")


def test_a_version_that_is_not_there_says_what_to_do(artifacts):
    with pytest.raises(CorruptBundle, match="restore it from a copy, or activate another version"):
        artifacts.local("versions/a")


def test_the_same_key_again_replaces_what_is_there_and_its_copies(artifacts, tmp_path):
    artifacts.put(a_folder(tmp_path, text="one"), "versions/a")
    artifacts.local("versions/a")
    second = a_folder(tmp_path, text="two")
    (second / "a.bin").unlink()
    expected = content(second)
    artifacts.put(second, "versions/a")

    assert content(artifacts.local("versions/a")) == expected
    assert not list(tmp_path.rglob(".a.*"))


@pytest.mark.parametrize(
    "key",
    ["", "versions", "versions/", "versions/..", "versions/a/b", "/etc/x", "uploads/../x", "other/a", "versions/.a"],
)
def test_a_key_never_leads_outside(artifacts, tmp_path, key):
    for way in (
        artifacts.exists,
        artifacts.delete,
        artifacts.local,
        lambda key: artifacts.put(a_folder(tmp_path), key),
    ):
        with pytest.raises(ValueError, match="write versions/ID or uploads/ID"):
            way(key)


def test_a_folder_that_nobody_could_know_to_be_complete_is_refused(artifacts, tmp_path):
    with pytest.raises(ValueError, match=r"has no upload\.json"):
        artifacts.put(a_folder(tmp_path, "version.json"), "uploads/a")
    assert artifacts.keys("uploads/") == []


def test_what_a_killed_put_or_delete_left_is_cleared_by_the_next(tmp_path):
    artifacts = Artifacts(str(tmp_path / "files"), tmp_path / "cache")
    left = [tmp_path / "files" / "versions" / name for name in (".a.123", ".b.456")]
    for folder in left:
        folder.mkdir(parents=True)
        (folder / "part").write_text("x")
    assert artifacts.keys("versions/") == []
    artifacts.put(a_folder(tmp_path), "versions/a")
    artifacts.delete("versions/b")

    assert not any(folder.exists() for folder in left)
    assert artifacts.keys("versions/") == ["versions/a"]


def test_many_files_are_put_as_well(artifacts, tmp_path):
    folder = a_folder(tmp_path, "upload.json")
    for number in range(100):
        (folder / "images" / f"{number:06}.jpg").write_bytes(b"x" * number)
    expected = content(folder)
    artifacts.put(folder, "uploads/many")

    assert content(artifacts.local("uploads/many")) == expected


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a second filesystem")
def test_a_folder_from_another_disk_is_copied_as_a_whole(tmp_path):
    artifacts = Artifacts(str(tmp_path / "files"), tmp_path / "cache")
    other = Path("/dev/shm") / f"zstci-test-{uuid.uuid4().hex}"
    other.mkdir()
    try:
        if other.stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("/dev/shm is on the same disk")
        for text in ("one", "two"):
            folder = a_folder(other, text=text)
            expected = content(folder)
            artifacts.put(folder, "versions/a")
            assert content(artifacts.local("versions/a")) == expected
            assert not folder.exists()
    finally:
        assert list(other.iterdir()) == []
        other.rmdir()


def test_threads_that_need_the_same_remote_folder_fetch_it_once_and_whole(tmp_path):
    artifacts = Artifacts(f"memory://{uuid.uuid4().hex}", tmp_path / "cache")
    folder = a_folder(tmp_path)
    expected = content(folder)
    artifacts.put(folder, "versions/a")
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(artifacts.local, ["versions/a"] * 6))

    assert len(set(found)) == 1
    assert content(found[0]) == expected


def test_a_remote_folder_without_its_last_file_is_not_there_yet(tmp_path):
    fsspec.register_implementation("cut", Cut, clobber=True)
    name = uuid.uuid4().hex
    folder = a_folder(tmp_path)
    with pytest.raises(StorageUnreachable, match="ConnectionError: cut"):
        Artifacts(f"cut://{name}", tmp_path / "cache").put(folder, "versions/a")
    # The two share one memory, so this is the same storage with the line mended.
    mended = Artifacts(f"memory://{name}", tmp_path / "cache")

    assert folder.exists()
    assert not mended.exists("versions/a")
    assert mended.keys("versions/") == ["versions/a"]
    with pytest.raises(CorruptBundle):
        mended.local("versions/a")
    mended.put(folder, "versions/a")
    assert set(content(mended.local("versions/a"))) == {"a.bin", "images/000001.jpg", "version.json"}


def test_no_room_is_an_error_of_its_own_and_the_folder_stays(tmp_path):
    fsspec.register_implementation("full", FullDisk, clobber=True)
    artifacts = Artifacts(f"full://{uuid.uuid4().hex}", tmp_path / "cache")
    folder = a_folder(tmp_path)
    with pytest.raises(StorageFull, match=r"no room for versions/a in full://.*free some"):
        artifacts.put(folder, "versions/a")

    assert folder.exists()
    assert not artifacts.exists("versions/a")


@pytest.mark.parametrize("url", ["nowhere://x", "gdrive://x"])
def test_a_storage_that_is_not_installed_says_so(tmp_path, url):
    with pytest.raises(InvalidConfig, match="ZSTCI_ARTIFACTS_URL"):
        Artifacts(url, tmp_path)


def test_a_storage_that_does_not_answer_is_named_whatever_is_asked(tmp_path, monkeypatch):
    for name, value in {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nobody is there
    fsspec.get_filesystem_class("s3").clear_instance_cache()  # one process, one endpoint otherwise
    artifacts = Artifacts("s3://nowhere/files", tmp_path / "cache")
    folder = a_folder(tmp_path)
    for way in (
        lambda: artifacts.put(folder, "versions/a"),
        lambda: artifacts.local("versions/a"),
        lambda: artifacts.exists("versions/a"),
        lambda: artifacts.delete("versions/a"),
        lambda: artifacts.keys("versions/"),
    ):
        with pytest.raises(StorageUnreachable, match=r"s3://nowhere/files does not answer.*ZSTCI_ARTIFACTS_URL"):
            way()
    assert folder.exists()
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.mark.usefixtures("s3")
def test_a_bucket_that_is_not_there_yet_is_made(tmp_path):
    artifacts = Artifacts(f"s3://new-{uuid.uuid4().hex}/files", tmp_path / "cache")
    assert artifacts.keys("versions/") == []
    assert not artifacts.exists("versions/a")
    artifacts.put(a_folder(tmp_path), "versions/a")

    assert artifacts.keys("versions/") == ["versions/a"]


def test_copies_are_known_and_forgotten_without_a_word_to_the_storage(tmp_path):
    artifacts = Artifacts(f"memory://{uuid.uuid4().hex}", tmp_path / "cache")
    artifacts.put(a_folder(tmp_path, "upload.json"), "uploads/a")
    assert artifacts.copies("uploads") == []
    artifacts.local("uploads/a")
    begun = tmp_path / "cache" / "uploads" / ".b.123"
    begun.mkdir()
    (begun / "000001.jpg").write_text("x")
    assert artifacts.copies("uploads") == ["uploads/a", "uploads/b"]
    for key in artifacts.copies("uploads"):
        artifacts.forget(key)

    assert artifacts.copies("uploads") == []
    assert not list((tmp_path / "cache").rglob("*.jpg"))
    assert artifacts.exists("uploads/a")


def test_copies_of_versions_that_nobody_uses_go(tmp_path, monkeypatch):
    artifacts = Artifacts(f"memory://{uuid.uuid4().hex}", tmp_path / "cache")
    keys = [f"versions/{number}" for number in range(7)]
    for key in keys:
        artifacts.put(a_folder(tmp_path), key)
    for key in keys[:6]:
        os.utime(artifacts.local(key), (1e9, 1e9 + int(key[-1])))  # long ago
    artifacts.local(keys[0])  # used again

    assert artifacts.copies("versions") == [keys[0], *keys[3:6]]
    monkeypatch.setattr(module, "_UNUSED_SECONDS", 1e12)
    artifacts.local(keys[6])
    assert len(artifacts.copies("versions")) == 5, "what was used a moment ago stays, however many there are"


def test_without_a_setting_the_files_are_in_the_home(tmp_path):
    assert artifacts_url(Settings(home=tmp_path)) == str(tmp_path / "files")
    assert artifacts_url(Settings(home=tmp_path, artifacts_url="s3://bucket/x")) == "s3://bucket/x"
    assert not (tmp_path / "files").exists()
