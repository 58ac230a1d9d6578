"""`glws explain --serve`: the page answers whoever has its address, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from threading import Thread
from urllib.parse import urlencode

import pytest

from glws.cli import run
from glws.cli._playground import HOST, MOST_CHARACTERS, page, server

TOKEN = "a-token"
START = {"text": "count(1) == 2", "classes": "2", "length": "4", "probs": ""}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with server(TOKEN, START) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield running.server_port
        running.shutdown()


def asked(port: int, path: str, method: str = "GET", **headers: str) -> tuple[HTTPResponse, str]:
    connection = HTTPConnection(HOST, port, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer, body


def test_it_draws_the_first_constraint(port):
    answer, body = asked(port, f"/{TOKEN}/")
    assert answer.status == 200
    assert "<svg" in body
    assert 'value="count(1) == 2"' in body
    assert "6 of 16 of length 4" in body


def test_it_draws_what_is_asked_for(port):
    query = urlencode({"text": "any(cat)", "classes": "cat,dog", "probs": "0.9,0.2,0.6"})
    _, body = asked(port, f"/{TOKEN}/?{query}")
    assert "log p(w)" in body
    assert "cat" in body


@pytest.mark.parametrize("path", ["/", "/other/", f"/{TOKEN}", f"/{TOKEN}/more", "/favicon.ico"])
def test_without_the_token_there_is_nothing(port, path):
    answer, body = asked(port, path)
    assert answer.status == 404
    assert body == "not found\n"


def test_other_names_of_this_machine_are_refused(port):
    assert asked(port, f"/{TOKEN}/", Host="example.org")[0].status == 404
    assert asked(port, f"/{TOKEN}/", Host=f"localhost:{port}")[0].status == 200


def test_only_get_is_answered(port):
    assert asked(port, f"/{TOKEN}/", "POST")[0].status == 501


def test_the_page_may_run_and_load_nothing(port):
    answer, body = asked(port, f"/{TOKEN}/")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "<script" not in body
    assert "src=" not in body
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_it_listens_on_this_machine_only():
    with server(TOKEN, START) as running:
        assert running.server_address[0] == "127.0.0.1"


def test_what_is_typed_stays_text():
    body = page({**START, "text": '"><script>alert(1)</script>', "classes": '<b>,"x"'})
    assert "<script" not in body
    assert "<b>" not in body


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"text": "count(1) = 2"}, "=="),
        ({"classes": "1"}, "--classes must be a number from 2"),
        ({"length": "x"}, "--length must be a whole number"),
        ({"probs": "0.5,2"}, "not a probability"),
        ({"text": "1" * (MOST_CHARACTERS + 1)}, "at most 4,000 characters"),
    ],
)
def test_a_mistake_is_a_line_on_the_page(changed, words):
    body = page(START | changed)
    assert words in body
    assert "<pre>" in body
    assert "<svg" not in body


def test_it_shows_constraints_only(capsys):
    assert run(["explain", "runs/one", "--group", "3", "--serve"]) == 2
    assert "--serve shows constraints" in capsys.readouterr().err
