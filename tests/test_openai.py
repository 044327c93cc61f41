"""The embedding service, against a server on this machine that is busy, broken, strict or wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dissensus.errors import InputError
from dissensus.models import encoders
from dissensus.models.encoders import Name, openai
from toys import IDS, TEXTS

Answer = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


class Service:
    """Gives the scripted answers in turn, the last one again and again; remembers what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[dict[str, Any]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.asked.append({"path": self.path, "key": self.headers["Authorization"], **body})
                answers[min(len(service.asked), len(answers)) - 1](self, body)

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> Service:
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


def send(request: BaseHTTPRequestHandler, code: int, content: Any, **headers: str) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    request.send_response(code)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def embeddings(dimension: int = 3, leave_out: int = 0, ragged: bool = False) -> Answer:
    """An honest answer, in no particular order; a text becomes its length in every place."""

    def answer(request: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        rows = [
            {"index": i, "embedding": [float(len(text))] * (dimension + (ragged and i == 0))}
            for i, text in enumerate(body["input"])
        ]
        send(request, 200, {"data": rows[::-1][leave_out:]})

    return answer


def redirect(code: int, to: Callable[[], str]) -> Answer:
    return lambda request, _: send(request, code, {}, Location=f"{to()}/v1/embeddings")


def refuse(code: int, error: Any = None, **headers: str) -> Answer:
    return lambda request, _: send(request, code, {"error": error or {"message": "no"}}, **headers)


def hang_up(request: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
    """Not a word."""


@pytest.fixture
def serve(monkeypatch, tmp_path):
    """A service with these answers, and an encoder that asks it; naps are noted, not taken."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    running = []

    def start(*answers: Answer, model: str = "toy") -> tuple[Service, openai.OpenAI, list[float]]:
        service = Service(*answers).__enter__()
        running.append(service)
        monkeypatch.setenv("no_proxy", "*")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-right")
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{service.http.server_port}/v1/")
        naps: list[float] = []
        return service, openai.OpenAI(Name("openai", model), sleep=naps.append), naps

    yield start
    for service in running:
        service.__exit__()


def test_a_service_is_asked_once_a_batch_and_its_rows_are_put_in_order(serve):
    service, encoder, naps = serve(embeddings())
    assert encoder(["a", "bbb", "cc"]).tolist() == [[1] * 3, [3] * 3, [2] * 3]
    assert naps == []
    (asked,) = service.asked
    assert asked["path"] == "/v1/embeddings"
    assert asked["key"] == "Bearer sk-right"
    assert asked["model"] == "toy"
    assert asked["input"] == ["a", "bbb", "cc"]


def test_a_busy_service_is_asked_again_when_it_says(serve):
    service, encoder, naps = serve(refuse(429, Retry_After="3"), refuse(429, Retry_After="7.5"), embeddings())
    assert encoder(["a"]).tolist() == [[1] * 3]
    assert naps == [3.0, 7.5]
    assert len(service.asked) == 3


def test_a_broken_service_is_asked_again_ever_later(serve):
    _, encoder, naps = serve(refuse(500), hang_up, refuse(503, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"), embeddings())
    assert encoder(["a"]).tolist() == [[1] * 3]
    assert naps == [1.0, 2.0, 4.0]


def test_no_wait_is_longer_than_a_minute(serve):
    _, encoder, naps = serve(refuse(429, Retry_After="86400"), embeddings())
    encoder(["a"])
    assert naps == [60.0]


def test_a_service_that_stays_broken_is_given_up_and_what_came_before_is_kept(serve):
    service, encoder, naps = serve(refuse(500))
    with pytest.raises(InputError, match=r"failed 6 times in a row .*500") as caught:
        encoder(["a"])
    assert len(service.asked) == 6
    assert len(naps) == 5
    assert "goes on from there" in caught.value.state


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (refuse(401, {"message": "Incorrect API key", "code": "invalid_api_key"}), "refuses the key .*Incorrect API key"),
        (refuse(403), "refuses the key"),
        (refuse(400, {"message": "too long"}), "400 Bad Request .*too long"),
        (refuse(404, "gone"), "404 Not Found"),
        (refuse(429, {"message": "pay", "code": "insufficient_quota"}), "insufficient_quota: pay"),
        (embeddings(leave_out=1), "1 embeddings for 2 texts"),
        (embeddings(ragged=True), "not embeddings of one length"),
        (lambda request, _: send(request, 200, {"data": [{"index": 0}]}), "not embeddings of one length"),
        (lambda request, _: send(request, 200, b"<html>"), "not JSON"),
    ],
)
def test_an_answer_that_no_waiting_mends_is_said_at_once(serve, answer, what):
    service, encoder, naps = serve(answer)
    with pytest.raises(InputError, match=what):
        encoder(["a", "b"])
    assert len(service.asked) == 1
    assert naps == []


def test_a_known_model_has_its_own_dimension_and_an_unknown_one_keeps_its_first(serve):
    _, encoder, _ = serve(embeddings(5), model="text-embedding-3-large")
    with pytest.raises(InputError, match="embeddings of 5 numbers, not 3,072"):
        encoder(["a"])
    _, encoder, _ = serve(embeddings(3), embeddings(4))
    encoder(["a"])
    with pytest.raises(InputError, match="embeddings of 4 numbers, not 3"):
        encoder(["b"])


def test_without_a_key_nothing_is_asked(serve, monkeypatch):
    service, encoder, _ = serve(embeddings())
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(InputError, match="no key") as caught:
        encoder(["a"])
    assert "OPENAI_API_KEY" in caught.value.hint
    assert service.asked == []


def test_texts_that_were_paid_for_are_not_asked_again(serve):
    service, _, _ = serve(embeddings(), refuse(401), embeddings())
    with pytest.raises(InputError, match="refuses the key"):
        encoders.encode(IDS, TEXTS, "openai:toy", batch=4)
    made = encoders.encode(IDS, TEXTS, "openai:toy", batch=4)
    assert made.x[:, 0].tolist() == [len(text) for text in TEXTS]
    assert len({text for asked in service.asked[::2] for text in asked["input"]}) == len(set(TEXTS))
    assert not set(service.asked[0]["input"]) & set(service.asked[2]["input"])


def test_a_password_in_the_address_is_not_written_down(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "https://me:secret@example.org/v1")
    provenance = openai.OpenAI(Name("openai", "toy")).provenance
    assert "secret" not in json.dumps(provenance)
    assert provenance["version"] == "example.org/v1"


@pytest.mark.parametrize("code", openai.REDIRECTS)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_key_follows_no_redirect(code, host, monkeypatch):
    with Service(embeddings()) as thief:
        other = f"http://{host}:{thief.http.server_port}"
        with Service(redirect(code, lambda: other)) as service:
            monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{service.http.server_port}/v1")
            monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
            with pytest.raises(InputError, match=f"sends us on to http://{host}/v1/embeddings") as refused:
                openai.OpenAI(Name("openai", "m"), sleep=lambda _: None)(["a"])
        assert [request["key"] for request in service.asked] == ["Bearer sk-secret"]
    assert thief.asked == []
    assert "sk-secret" not in str(refused.value)


@pytest.mark.parametrize("key", ["sk-secret\n", "sk secret", "sk-\x00secret", "sk-sécret"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key, monkeypatch):
    monkeypatch.setattr("os.environ", {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": "http://127.0.0.1:1"})
    with pytest.raises(InputError, match="characters that no key has") as refused:
        openai.OpenAI(Name("openai", "m"), sleep=lambda _: None)(["a"])
    assert "secret" not in str(refused.value)
    assert "sécret" not in str(refused.value)


def test_a_password_in_the_address_is_not_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:hunter2@127.0.0.1:1/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with pytest.raises(InputError) as refused:
        openai.OpenAI(Name("openai", "m"), sleep=lambda _: None)(["a"])
    assert "hunter2" not in str(refused.value)


def test_empty_embeddings_are_neither_cached_nor_saved(tmp_path, monkeypatch):
    with Service(embeddings(dimension=0)) as service:
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{service.http.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        with pytest.raises(InputError, match="empty"):
            encoders.encode(IDS, TEXTS, "openai:m", cache=tmp_path)
    assert not list(tmp_path.rglob("*.npz"))
