"""Downloads against a server on this machine that is slow, breaks off, lies or refuses."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dissensus.datasets import DATASETS, archives
from dissensus.datasets.archives import unpack
from dissensus.datasets.catalogue import Remote
from dissensus.datasets.download import ATTEMPTS, RECORD, fetch
from dissensus.errors import InputError

BODY = bytes(range(256)) * 4096  # 1 MiB
Answer = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """Gives the scripted answers in turn, the last one again and again; remembers what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[dict[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append({key.lower(): value for key, value in self.headers.items()})
                answers[min(len(server.asked), len(answers)) - 1](self)

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/file.npy"

    def __enter__(self) -> Server:
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


def good(body: bytes = BODY, tag: str | None = '"v1"', stop: int | None = None, ranges: bool = True) -> Answer:
    """An honest answer; `stop` cuts the connection after so many bytes of the file."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        start = 0
        if ranges and "Range" in request.headers and request.headers.get("If-Range", tag) == tag:
            start = int(request.headers["Range"].removeprefix("bytes=").rstrip("-"))
        if start and start >= len(body):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(body)}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        request.send_response(206 if start else 200)
        request.send_header("Content-Length", str(len(body) - start))
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if tag:
            request.send_header("ETag", tag)
        request.end_headers()
        request.wfile.write(body[start:stop])

    return answer


def refuse(code: int) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_error(code)

    return answer


def drop(request: BaseHTTPRequestHandler) -> None:
    """Hang up without a word."""


def remote(url: str, md5: str | None = None, path: str = "folder/file.npy") -> Remote:
    return Remote(url, path, brings=((path, None),), md5=md5, md5_source="its page" if md5 else "")


def md5_of(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def naps() -> list[float]:
    return []


@contextmanager
def only_these(root: Path, *names: str) -> Iterator[None]:
    """After the block, these files and no others are there: no half files, no droppings."""
    yield
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()) == sorted(names)


def test_a_file_comes_whole_and_its_first_digest_is_recorded_and_said(tmp_path, naps):
    seen = []
    with Server(good()) as server, only_these(tmp_path, "folder/file.npy", RECORD):
        said = fetch(remote(server.url), tmp_path, progress=lambda *now: seen.append(now), sleep=naps.append)
    assert (tmp_path / "folder" / "file.npy").read_bytes() == BODY
    assert hashlib.sha256(BODY).hexdigest() in said
    assert "no checksum is published" in said
    assert json.loads((tmp_path / RECORD).read_text())[server.url]["sha256"] == hashlib.sha256(BODY).hexdigest()
    assert seen[-1] == (len(BODY), len(BODY))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert naps == []


def test_a_broken_connection_is_resumed_where_it_broke(tmp_path, naps):
    with Server(good(stop=300_000), good(stop=700_001), good()) as server:
        fetch(remote(server.url), tmp_path, sleep=naps.append)
    assert (tmp_path / "folder" / "file.npy").read_bytes() == BODY
    assert [asked.get("range") for asked in server.asked] == [None, "bytes=300000-", "bytes=700001-"]
    assert [asked.get("if-range") for asked in server.asked] == [None, '"v1"', '"v1"']
    assert naps == [1.0, 1.0]  # progress was made in between


def test_a_later_call_goes_on_from_what_an_earlier_one_left(tmp_path, naps):
    with Server(good(stop=300_000), *[drop] * ATTEMPTS, good()) as server:
        with pytest.raises(InputError, match="300,000 bytes received are kept"):
            fetch(remote(server.url), tmp_path, sleep=naps.append)
        fetch(remote(server.url), tmp_path, sleep=naps.append)
    assert (tmp_path / "folder" / "file.npy").read_bytes() == BODY
    assert server.asked[-1]["range"] == "bytes=300000-"


def test_a_file_that_changed_meanwhile_is_not_glued_to_the_old_bytes(tmp_path, naps):
    changed = BODY[::-1]
    with Server(good(stop=300_000), good(changed, tag='"v2"')) as server:
        fetch(remote(server.url), tmp_path, sleep=naps.append)
    assert (tmp_path / "folder" / "file.npy").read_bytes() == changed


@pytest.mark.parametrize("tag", [None, 'W/"weak"'])
def test_without_a_promise_that_the_file_is_the_same_it_is_fetched_anew(tmp_path, naps, tag):
    with Server(good(tag=tag, stop=300_000), good(tag=tag)) as server:
        fetch(remote(server.url), tmp_path, sleep=naps.append)
    assert (tmp_path / "folder" / "file.npy").read_bytes() == BODY
    assert "range" not in server.asked[1]


def test_where_a_checksum_is_published_it_is_resumed_without_such_a_promise(tmp_path, naps):
    with Server(good(tag=None, stop=300_000), good(tag=None)) as server:
        said = fetch(remote(server.url, md5_of(BODY)), tmp_path, sleep=naps.append)
    assert server.asked[1]["range"] == "bytes=300000-"
    assert said == "file.npy: its MD5 is the one published at its page."


def test_a_server_that_cannot_resume_sends_it_all_again(tmp_path, naps):
    with Server(good(stop=300_000), good(ranges=False)) as server:
        fetch(remote(server.url), tmp_path, sleep=naps.append)
    assert (tmp_path / "folder" / "file.npy").read_bytes() == BODY


def test_a_server_that_cannot_resume_and_always_breaks_is_given_up(tmp_path, naps):
    with Server(good(ranges=False, stop=300_000)) as server, pytest.raises(InputError, match="cut off after 300,000 of"):
        fetch(remote(server.url), tmp_path, sleep=naps.append)
    assert len(server.asked) == ATTEMPTS


def test_an_answer_for_another_place_than_asked_is_not_used(tmp_path, naps):
    def elsewhere(request: BaseHTTPRequestHandler) -> None:
        request.send_response(206)
        request.send_header("Content-Range", f"bytes 5-{len(BODY) - 1}/{len(BODY)}")
        request.send_header("Content-Length", str(len(BODY) - 5))
        request.end_headers()

    with Server(good(stop=300_000), elsewhere, good()) as server:
        fetch(remote(server.url), tmp_path, sleep=naps.append)
    assert (tmp_path / "folder" / "file.npy").read_bytes() == BODY


def test_bytes_that_were_all_here_already_are_only_checked(tmp_path, naps):
    (tmp_path / ".file.npy.part").write_bytes(BODY)
    with Server(good()) as server, only_these(tmp_path, "folder/file.npy", RECORD):
        fetch(remote(server.url, md5_of(BODY)), tmp_path, sleep=naps.append)
    assert len(server.asked) == 1


def test_more_bytes_than_the_file_has_are_thrown_away(tmp_path, naps):
    (tmp_path / ".file.npy.part").write_bytes(BODY + b"more")
    with Server(good()) as server:
        fetch(remote(server.url, md5_of(BODY)), tmp_path, sleep=naps.append)
    assert (tmp_path / "folder" / "file.npy").read_bytes() == BODY


def test_a_slow_server_is_not_waited_for_forever(tmp_path, naps):
    enough = threading.Event()

    def silent(request: BaseHTTPRequestHandler) -> None:
        enough.wait(30)

    with Server(silent, good()) as server:
        fetch(remote(server.url), tmp_path, timeout=0.2, sleep=naps.append)
        enough.set()
    assert (tmp_path / "folder" / "file.npy").read_bytes() == BODY
    assert naps == [1.0]


def test_a_server_that_stalls_midway_is_resumed(tmp_path, naps):
    enough = threading.Event()

    def stall(request: BaseHTTPRequestHandler) -> None:
        good(stop=524_288)(request)
        request.wfile.flush()
        enough.wait(30)

    with Server(stall, good()) as server:
        fetch(remote(server.url), tmp_path, timeout=0.3, sleep=naps.append)
        enough.set()
    assert (tmp_path / "folder" / "file.npy").read_bytes() == BODY
    assert server.asked[1]["range"] == "bytes=524288-"


@pytest.mark.parametrize("trouble", [refuse(503), refuse(429), drop])
def test_passing_trouble_is_waited_out_longer_each_time(tmp_path, naps, trouble):
    with Server(trouble, trouble, trouble, good()) as server:
        fetch(remote(server.url), tmp_path, sleep=naps.append)
    assert naps == [1.0, 2.0, 4.0]


def test_lasting_trouble_is_given_up_with_an_explanation(tmp_path, naps):
    with Server(refuse(503)) as server, pytest.raises(InputError, match=f"failed {ATTEMPTS} times in a row .503"):
        fetch(remote(server.url), tmp_path, sleep=naps.append)
    assert len(naps) == ATTEMPTS - 1


@pytest.mark.parametrize("code", [403, 404])
def test_a_file_that_is_gone_is_said_at_once(tmp_path, naps, code):
    with Server(refuse(code)) as server, only_these(tmp_path), pytest.raises(InputError, match=f"answers {code}"):
        fetch(remote(server.url), tmp_path, sleep=naps.append)
    assert len(server.asked) == 1


def test_nobody_listening_is_trouble_too(tmp_path, naps):
    with Server(good()) as server:
        pass
    with pytest.raises(InputError, match="refused"):
        fetch(remote(server.url), tmp_path, sleep=naps.append)


def test_an_answer_that_hides_its_truncation_fails_the_checksum(tmp_path, naps):
    target = tmp_path / "folder" / "file.npy"
    target.parent.mkdir()
    target.write_bytes(b"the old file")
    with (
        Server(good(BODY[:-1])) as server,
        only_these(tmp_path, "folder/file.npy"),
        pytest.raises(InputError, match="its page says") as caught,
    ):
        fetch(remote(server.url, md5_of(BODY)), tmp_path, sleep=naps.append)
    assert target.read_bytes() == b"the old file"
    assert "was deleted" in str(caught.value)


def test_a_source_that_changed_since_the_first_download_is_refused(tmp_path, naps):
    with Server(good(), good(), good(b"something else")) as server:
        fetch(remote(server.url), tmp_path, sleep=naps.append)
        assert "same as at the first download" in fetch(remote(server.url), tmp_path, sleep=naps.append)
        with pytest.raises(InputError, match="at the first download it was") as caught:
            fetch(remote(server.url), tmp_path, sleep=naps.append)
    assert RECORD in str(caught.value)
    assert (tmp_path / "folder" / "file.npy").read_bytes() == BODY


def test_a_full_disk_is_called_a_full_disk(tmp_path, naps, monkeypatch):
    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    plain = Path.open

    def open_full(self: Path, mode: str = "r", *rest: object, **more: object):
        return Full() if self.name.endswith(".part") and mode in ("wb", "ab") else plain(self, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", open_full)
    with Server(good()) as server, pytest.raises(InputError, match=r"the disk is full.\n.*Make room"):
        fetch(remote(server.url), tmp_path, sleep=naps.append)
    assert len(server.asked) == 1  # it is not tried again


def test_a_folder_that_cannot_be_made_is_explained(tmp_path, naps):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="DISSENSUS_DATA"):
        fetch(remote("http://127.0.0.1:9/file.npy"), tmp_path / "file" / "inside", sleep=naps.append)


def test_a_record_that_is_no_json_is_explained(tmp_path):
    (tmp_path / RECORD).write_text("{")
    with pytest.raises(InputError, match=r"downloads\.json: this is not JSON"):
        fetch(remote("http://127.0.0.1:9/file.npy"), tmp_path)


# ---- archives


def zipped(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as bundle:
        for name, content in files.items():
            bundle.writestr(name, content)
    return out.getvalue()


def taped(*members: tuple[str, bytes, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tape:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname = kind, len(content), "/etc/passwd"
            tape.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize(
    ("suffix", "body"),
    [
        ("zip", zipped(**{"inner/a.csv": b"one", "b.csv": b"two"})),
        (
            "tar.gz",
            taped(
                ("inner", tarfile.DIRTYPE, b""),
                ("inner/a.csv", tarfile.REGTYPE, b"one"),
                ("b.csv", tarfile.REGTYPE, b"two"),
            ),
        ),
    ],
)
def test_an_archive_is_unpacked_and_not_kept(tmp_path, naps, suffix, body):
    with Server(good(body)) as server, only_these(tmp_path, "data/inner/a.csv", "data/b.csv", RECORD):
        fetch(remote(server.url.replace("npy", suffix), path="data"), tmp_path, sleep=naps.append)
    assert (tmp_path / "data" / "inner" / "a.csv").read_bytes() == b"one"


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "..\\evil", "C:\\evil"])
@pytest.mark.parametrize("suffix", ["zip", "tar.gz"])
def test_an_archive_that_points_out_of_its_folder_is_refused(tmp_path, naps, name, suffix):
    body = (
        zipped(**{"fine": b"", name: b""})
        if suffix == "zip"
        else taped(("fine", tarfile.REGTYPE, b""), (name, tarfile.REGTYPE, b""))
    )
    root = tmp_path / "root"
    with Server(good(body)) as server, only_these(tmp_path), pytest.raises(InputError, match="outside its folder"):
        fetch(remote(server.url.replace("npy", suffix), path="data"), root, sleep=naps.append)


def test_links_and_devices_in_an_archive_are_left_out(tmp_path):
    (tmp_path / "tape").write_bytes(
        taped(
            ("link", tarfile.SYMTYPE, b""),
            ("hard", tarfile.LNKTYPE, b""),
            ("null", tarfile.CHRTYPE, b""),
            ("a", tarfile.REGTYPE, b"1"),
        )
    )
    unpack(tmp_path / "tape", tmp_path / "out", name="tape")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a"]


@pytest.mark.parametrize("suffix", ["zip", "tar.gz"])
def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused_and_leaves_nothing(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(archives, "UNPACKED_FREELY", 1 << 20)
    (tmp_path / "bomb").write_bytes(taped(("a", tarfile.REGTYPE, bytes(4 << 20))))
    if suffix == "zip":
        with zipfile.ZipFile(tmp_path / "bomb", "w", zipfile.ZIP_DEFLATED) as bundle:
            bundle.writestr("a", bytes(4 << 20))
    assert (tmp_path / "bomb").stat().st_size < 40_000
    with pytest.raises(InputError, match="bytes unpack to far more"):
        unpack(tmp_path / "bomb", tmp_path / "out", name="bomb")
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    "body",
    [b"no archive", b"", zipped(a=b"x" * 500)[:-30], taped(("a", tarfile.REGTYPE, bytes(range(256)) * 100))[:-40]],
    ids=["text", "empty", "zip", "tar.gz"],
)
def test_a_broken_archive_leaves_nothing_behind_and_no_digest(tmp_path, naps, body):
    with Server(good(body)) as server, only_these(tmp_path), pytest.raises(InputError, match="cannot be read"):
        fetch(remote(server.url.replace("npy", "tar.gz"), path="data"), tmp_path, sleep=naps.append)


def test_the_real_sources_name_where_their_checksum_is_published():
    for entry in DATASETS.values():
        for one in entry.remotes:
            assert one.url.startswith("https://") or one.md5  # what comes unencrypted is checked
            assert bool(one.md5) == bool(one.md5_source)
