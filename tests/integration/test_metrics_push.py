"""OTLP pushes, to collectors that take them, refuse them, are slow, or are not there."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pyromq.endpoint.otlp_push import OtlpPush, read_headers
from pyromq.errors import ConfigError
from pyromq.metrics.broker_table import TOPIC_NUMBER
from pyromq.metrics.samples import Family, ServerSamples
from pyromq.metrics.settings import MetricsSettings

pytestmark = pytest.mark.integration

PARTS = [ServerSamples({"node_id": "a"}, [Family(TOPIC_NUMBER, [((), 3)])])]


class Collector:
    """A collector that answers with ``status``, once ``may_answer`` is set."""

    def __init__(self) -> None:
        self.status = 200
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.asked = threading.Event()
        self.got: list[tuple[str, dict[str, str], Any]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.asked.set()
                collector.may_answer.wait(30)
                collector.got.append((self.path, dict(self.headers), json.loads(body)))
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever, args=(0.01,))
    thread.start()
    yield collector
    collector.may_answer.set()
    collector.server.shutdown()
    collector.server.server_close()
    thread.join()


async def collect() -> list[ServerSamples]:
    return PARTS


def push_to(url: str, **settings: Any) -> OtlpPush:
    return OtlpPush(MetricsSettings(otlp_endpoint=url, **settings), collect, list)


async def test_a_collector_gets_everything(collector: Collector, tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("# of the tenant\nX-Scope: shop\n\nAuthorization: Bearer abc\n")
    push = push_to(collector.url, otlp_headers_file=headers)
    await push.push()
    await push.stop()
    ((path, sent, body),) = collector.got
    assert path == "/v1/metrics" and (sent["X-Scope"], sent["Authorization"]) == ("shop", "Bearer abc")
    (metric,) = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    assert metric["name"] == "rocketmq_topic_number" and metric["gauge"]["dataPoints"][0]["asInt"] == "3"
    assert push.counts == {"ok": 1}


async def test_failures_are_told_once_and_counted(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    push = push_to(f"{collector.url}/own/path?a=b")
    collector.status = 500
    for _ in range(3):
        await push.push()
    assert push.counts == {"failed": 3} and caplog.text.count("metrics not pushed") == 1
    collector.status = 202
    await push.push()
    await push.stop()
    assert push.counts == {"failed": 3, "ok": 1} and "metrics are pushed again" in caplog.text
    assert {path for path, _, _ in collector.got} == {"/own/path?a=b"}


async def test_nobody_there_is_a_failure_and_nothing_more() -> None:
    with socket.socket() as silent:  # has a port, and does not listen
        silent.bind(("127.0.0.1", 0))
        push = push_to(f"http://127.0.0.1:{silent.getsockname()[1]}")
        await push.push()
        await push.stop()
    assert push.counts == {"failed": 1}


async def test_while_a_collector_is_slow_pushes_are_dropped_and_nobody_waits(collector: Collector) -> None:
    push = push_to(collector.url, otlp_timeout_ms=30_000)
    collector.may_answer.clear()
    push.push_soon()
    await asyncio.to_thread(collector.asked.wait, 30)
    push.push_soon()
    push.push_soon()
    assert push.counts == {"dropped": 2}
    assert [labels for labels, _ in push.families()[0].samples] == [("ok",), ("failed",), ("dropped",)]
    await push.stop()  # does not wait for it either
    collector.may_answer.set()


@pytest.mark.parametrize("text", ["no colon\n", ": no name\n", "\xff\n"])
def test_a_file_of_headers_that_cannot_be_read_is_told_without_showing_it(text: str, tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text(f"Authorization: secret\n{text}", encoding="latin-1")
    with pytest.raises(ConfigError, match="otlp_headers_file") as caught:
        read_headers(MetricsSettings(otlp_headers_file=file))
    assert "secret" not in str(caught.value)
