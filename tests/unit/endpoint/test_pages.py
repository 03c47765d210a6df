"""Pages of an endpoint."""

from __future__ import annotations

import pytest

from pyromq.endpoint.pages import EndpointPages
from pyromq.endpoint.verdicts import HealthVerdict
from pyromq.httpd.head import HttpRequest
from pyromq.httpd.server import HttpResponse
from pyromq.metrics.broker_table import QUEUE_MESSAGES, TOPIC_NUMBER
from pyromq.metrics.samples import Family, ServerSamples
from tests.unit.metrics.grammar import read_text


class Rig:
    def __init__(self, *, token: str = "", is_loopback: bool = True, series_max: int = 100) -> None:
        self.parts = [ServerSamples({"node_id": "a"}, [Family(TOPIC_NUMBER, [((), 3)])])]
        self.collected = 0
        checks = {"ready": self.ready}
        self.pages = EndpointPages(self.collect, checks, series_max=series_max, token=token, is_loopback=is_loopback)

    async def collect(self) -> list[ServerSamples]:
        self.collected += 1
        return self.parts

    async def ready(self) -> HealthVerdict:
        return HealthVerdict(False, "ready", ("not yet",))

    async def get(self, path: str, **headers: str) -> HttpResponse:
        headers = {"host": "127.0.0.1", **headers}
        return await self.pages.answer(HttpRequest("GET", path, headers, True))


async def test_each_path_has_its_page() -> None:
    rig = Rig()
    text = await rig.get("/metrics")
    assert text.status == 200 and text.content_type.startswith("text/plain; version=0.0.4")
    assert read_text(text.body.decode())["rocketmq_topic_number"].value(node_id="a") == 3
    openly = await rig.get("/metrics", accept="application/openmetrics-text")
    assert read_text(openly.body.decode(), is_open=True)["rocketmq_topic_number"].kind == "gauge"
    assert (await rig.get("/health/ready")).status == 503
    assert (await rig.get("/")).status == 200
    for path in ("/metricsx", "/metrics/", "/health", "/health/other", "/../etc/passwd", "/%6detrics", "//metrics"):
        assert (await rig.get(path)).status == 404, path


async def test_a_token_is_asked_for_metrics_and_not_for_health() -> None:
    rig = Rig(token="a-long-enough-token")
    for header in ("", "Bearer wrong", "Basic a-long-enough-token", "a-long-enough-token", "Bearer \u00e9"):
        assert (await rig.get("/metrics", authorization=header)).status == 401
    assert rig.collected == 0
    assert (await rig.get("/metrics", authorization="bearer a-long-enough-token")).status == 200
    assert (await rig.get("/health/ready")).status == 503


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("x.localhost", 200), ("127.0.0.1", 200), ("::1", 200), ("", 200), ("evil.example", 421)],
)
async def test_on_loopback_a_foreign_name_is_refused(host: str, status: int) -> None:
    assert (await Rig().get("/metrics", host=host)).status == status
    assert (await Rig(is_loopback=False).get("/metrics", host=host)).status == 200


async def test_a_collection_is_written_once_for_all_who_ask() -> None:
    rig = Rig()
    first, second = await rig.get("/metrics"), await rig.get("/metrics")
    assert first.body is second.body
    rig.parts = list(rig.parts)
    assert (await rig.get("/metrics")).body is not first.body


async def test_label_sets_beyond_the_budget_are_told() -> None:
    rig = Rig(series_max=2)
    samples = [((f"t{number}", "0"), number) for number in range(5)]
    rig.parts = [ServerSamples({"node_id": "a"}, [Family(QUEUE_MESSAGES, samples)])]
    found = read_text((await rig.get("/metrics")).body.decode())
    assert found["pyromq_queue_messages_total"].value(topic="_overflow", queue_id="_overflow") == 2 + 3 + 4
    assert found["pyromq_metrics_overflow_series"].value(metric="pyromq_queue_messages_total") == 3
