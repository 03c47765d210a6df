"""Heads of HTTP requests: what is not plainly right is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.httpd.head import FIELDS_MAX, HttpError, parse_head


def head(*lines: str) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def test_a_usual_request() -> None:
    request = parse_head(head("GET /metrics?a=b HTTP/1.1", "Host: 127.0.0.1:5557", "ACCEPT:  text/plain \t"))
    assert (request.method, request.path, request.keeps_alive) == ("GET", "/metrics", True)
    assert request.headers["accept"] == "text/plain" and request.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("given_host", "host"),
    [("a", "a"), ("a:80", "a"), ("[::1]:80", "::1"), ("[::1]", "::1"), ("", ""), ("::1", "::1"), ("a:", "a")],
)
def test_hosts(given_host: str, host: str) -> None:
    assert parse_head(head("GET / HTTP/1.1", f"Host: {given_host}")).host == host


@pytest.mark.parametrize(
    ("version", "connection", "keeps"),
    [("1.1", "keep-alive", True), ("1.1", "Close", False), ("1.0", "", False), ("1.0", "foo, Keep-Alive", True)],
)
def test_who_keeps_the_connection(version: str, connection: str, keeps: bool) -> None:
    request = parse_head(head(f"GET / HTTP/{version}", "Host: a", f"Connection: {connection}"))
    assert request.keeps_alive is keeps


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["GET /metrics"], 400),
        (["GET  /metrics HTTP/1.1", "Host: a"], 400),
        (["GET /metrics HTTP/2.0", "Host: a"], 400),
        (["G(T / HTTP/1.1", "Host: a"], 400),
        (["GET http://a/metrics HTTP/1.1", "Host: a"], 400),
        (["GET * HTTP/1.1", "Host: a"], 400),
        (["GET /a\x01 HTTP/1.1", "Host: a"], 400),
        (["GET /\xe9 HTTP/1.1", "Host: a"], 400),
        (["GET / HTTP/1.1"], 400),
        (["GET / HTTP/1.1", "Host: a", "Host: b"], 400),
        (["GET / HTTP/1.1", "Host : a"], 400),
        (["GET / HTTP/1.1", " Host: a"], 400),
        (["GET / HTTP/1.1", "Host: a", "  folded"], 400),
        (["GET / HTTP/1.1", "Host: a", "X: a\nY: b"], 400),
        (["GET / HTTP/1.1", "Host: a", "X: a\x00"], 400),
        (["GET / HTTP/1.1", "Host: a", "Content-Length: 5"], 413),
        (["GET / HTTP/1.1", "Host: a", "Content-Length: 0", "Content-Length: 5"], 400),
        (["GET / HTTP/1.1", "Host: a", "Content-Length: +0"], 413),
        (["GET / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked"], 413),
        (["GET / HTTP/1.1", "Host: a", *(f"X{number}: 1" for number in range(FIELDS_MAX))], 431),
    ],
    ids=lambda value: None if isinstance(value, list) else str(value),
)
def test_what_is_refused(lines: list[str], status: int) -> None:
    with pytest.raises(HttpError) as caught:
        parse_head(head(*lines))
    assert caught.value.status == status


@given(st.binary())
def test_garbage_is_an_error_and_nothing_else(data: bytes) -> None:
    try:
        request = parse_head(data + b"\r\n\r\n")
    except HttpError as error:
        assert error.status in (400, 413, 431)
    else:
        assert request.path.startswith("/")
