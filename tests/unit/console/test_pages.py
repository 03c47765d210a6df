"""Pages as a visitor uses them, and what foreign text becomes in them."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from pathlib import Path

import msgspec
import pytest

import pyromq.console
from pyromq.aio import Credentials, Message
from pyromq.client.admin.broker_requests import ProducerInfo
from pyromq.console.pages.topic import delay_ms, message_from
from pyromq.console.web.visit import BadRequestError
from pyromq.errors import ConnectFailedError, NoPermissionError
from pyromq.model.topic import GroupConfig
from pyromq.operate.health import ClusterFinding, judge_broker
from pyromq.operate.lists import ListQuestion, TopicPage
from pyromq.testing import LoopbackBroker
from pyromq.testing.loopback import guarded_by
from tests.unit.console.rig import XSS, ConsoleRig

FOLDER = Path(pyromq.console.__file__).parent
TEMPLATES = sorted((FOLDER / "templates").glob("*.html"))


def text_of(page: str) -> str:
    """What a reader sees."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())


def filled(path: str, values: dict[str, str]) -> str:
    return re.sub(r"{(\w+)}", lambda part: values.get(part[1], "x"), path)


# --- what no page may hold ---


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_templates_hold_nothing_inline_and_nothing_from_elsewhere(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    assert "|safe" not in text.replace(" ", "") and "autoescape" not in text
    assert not re.search(r"\sstyle\s*=", text), "style attributes are refused by the policy"
    assert not re.search(r"\son\w+\s*=", text), "so are handlers"
    assert not re.search(r"<script(?![^>]*\ssrc=)", text)
    assert not re.search(r"<style", text)
    assert not re.search(r"https?://", text), "pages work offline"
    for form in re.findall(r"<form[^>]*method=\"post\".*?</form>", text, re.DOTALL):
        assert "csrf" in form or 'action="/login"' in form, form


def test_scripts_and_styles_come_from_here_alone() -> None:
    for name in ("app.js", "app.css"):
        text = (FOLDER / "static" / name).read_text(encoding="utf-8")
        assert not re.search(r"https?://|@import|\beval\(|new Function|innerHTML|document\.write", text), name
        assert len(text.splitlines()) < 700


async def test_no_page_names_another_machine_and_none_repeats_foreign_text_as_markup() -> None:
    """Every page of the registry, with hostile values in every usual field of its address."""
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders", queues=1)
        await rig.admin.groups.create(GroupConfig(group_name="billing"))
        names = "q sort order page size kind next topic group id key tags sql error begin end tab".split()
        hostile = dict.fromkeys(names, XSS)
        for route in rig.console.pages:
            if route.method != "GET" or route.is_stream:
                continue
            for values in ({"topic": "orders", "group": "billing"}, {}):
                path = filled(route.path, values)
                for query in ({}, hostile):
                    response = await rig.get(path, **query)
                    assert response.status_code < 500, f"{path} {query}: {text_of(response.text)[-500:]}"
                    assert "<script>alert" not in response.text, path
                    assert "<img src=x" not in response.text, path
                    if "html" in response.headers.get("content-type", ""):
                        sources = re.findall(r"(?:src|href|action)=\"([^\"]*)\"", response.text)
                        assert [each for each in sources if re.match(r"https?:|//", each)] == [], path


async def test_foreign_text_in_every_place_of_my_pages_stays_text(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders", queues=1)

        async def producers() -> dict[str, list[ProducerInfo]]:
            return {XSS: [ProducerInfo(client_id=XSS, address=XSS, language=XSS)]}

        async def runtime(address: str) -> dict[str, str]:
            return {"brokerVersionDesc": XSS, "commitLogDirCapacity": XSS, "putTps": XSS, "bootTimestamp": XSS}

        async def groups(topic: str) -> list[str]:
            return [XSS]

        async def examine() -> list[object]:
            raise ConnectFailedError(XSS)

        monkeypatch.setattr(rig.admin.members, "producers", producers)
        monkeypatch.setattr(rig.admin.brokers, "runtime", runtime)
        monkeypatch.setattr(rig.admin.topics, "groups", groups)
        monkeypatch.setattr(rig.admin.health, "findings", examine)
        await rig.post("/access/tokens", {"name": XSS[:60], "role": "operator"})
        pages = ["/", "/topics", "/topics/orders", "/access", "/topics/orders/delete", "/topics/orders/clients"]
        seen = 0
        for path in pages:
            page = await rig.page(path)
            assert "<script>" not in page, path
            assert "<img src=x" not in page, path
            seen += XSS[:40] in text_of(page).replace(" ", "") or "&lt;script&gt;" in page
        assert seen >= 4, "or nothing was tested"
        sent = await rig.post(
            "/topics/orders/send", {"body": XSS, "tags": XSS.replace("|", ""), "keys": XSS, "properties": f"a={XSS}"}
        )
        assert "<script>alert" not in sent.text
        assert "confirmed" in text_of(sent.text)
        said = await rig.act("/access/tokens", {"name": "<b>bold</b>"})
        assert "<b>bold</b>" not in said
        monkeypatch.undo()
        assert [message.body.decode() for message in rig.broker.stored("orders")] == [XSS]


# --- overview ---


async def test_the_overview_says_what_the_doctor_says_and_where_brokers_are(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders", queues=2)
        found = [
            *judge_broker("broker broker-a", {"commitLogDiskRatio": "0.9", "unreadMessagesDeleted": "3"}),
            *judge_broker("b", {}),
        ]

        async def examine() -> list[ClusterFinding]:
            return found

        monkeypatch.setattr(rig.admin.health, "findings", examine)
        text = text_of(await rig.page("/"))
        assert f"{rig.broker.address} reached from here" in text
        assert "Topics 1 of applications" in text
        assert "2 things to look at" in text
        for each in found:
            assert f"{each.severity.value} {each.about} {each.text}" in text, each
        told = (await rig.api("GET", "/health")).json()
        assert [each["text"] for each in told["findings"]] == [each.text for each in found]


async def test_the_overview_opens_when_nobody_answers() -> None:
    async with ConsoleRig() as rig:

        async def gone(*_: object) -> None:
            raise ConnectFailedError("nobody is there")

        rig.desk.admin.brokers.list = gone  # type: ignore[method-assign,assignment]
        rig.desk.admin.topics.names = gone  # type: ignore[method-assign,assignment]
        text = text_of(await rig.page("/"))
        assert "nobody is there" in text


async def test_the_live_stream_sends_the_regions_of_the_page() -> None:
    async with ConsoleRig(refresh_ms=1) as rig:
        route = next(each for each in rig.console.pages if each.path == "/overview/live")
        page = await rig.page("/")
        from starlette.requests import Request

        from pyromq.console.web.streams import Events
        from pyromq.console.web.visit import Visit

        app = type("App", (), {"state": type("State", (), {"console": rig.console})})
        visit = Visit(desk=rig.desk, request=Request({"type": "http", "app": app, "headers": [], "method": "GET"}))
        events = await route.handler(visit)
        assert isinstance(events, Events)
        event = await anext(events.source)
        assert event.name == "region"
        regions = re.findall(r'id="(\w+)"', event.data)
        assert {"numbers", "rates", "health", "brokers"} <= set(regions)
        assert all(f'id="{each}"' in page for each in ("numbers", "rates", "health", "brokers"))
        await events.source.aclose()  # type: ignore[attr-defined]


# --- topics ---


async def test_topics_are_searched_sorted_and_cut_on_the_server() -> None:
    async with ConsoleRig() as rig:
        for number in range(30):
            await rig.admin.topics.create(f"topic-{number:02}", queues=1)
        rig.desk.cache.forget_all()
        first = text_of(await rig.page("/topics", size=25))
        assert "1–25 of 30 topics" in first
        assert "topic-24" in first and "topic-25" not in first
        last = text_of(await rig.page("/topics", size=25, page=2))
        assert "26–30 of 30 topics" in last
        assert "page 2 of 2" in text_of(await rig.page("/topics", size=25, page=99))
        found = text_of(await rig.page("/topics", q="IC-07"))
        assert "1–1 of 1 topic " in found and "topic-07" in found
        turned = await rig.page("/topics", order="desc", sort="name")
        assert turned.index("topic-29") < turned.index("topic-00")
        assert "TBW102" not in first
        assert "TBW102" in text_of(await rig.page("/topics", kind="system"))


async def test_a_row_has_queues_messages_groups_lag_and_dead_letters() -> None:
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders", queues=3)
        await rig.admin.topics.create("%DLQ%billing", queues=1)
        producer = await rig.producer()
        for number in range(7):
            await producer.send(Message("orders", b"%d" % number))
        await rig.admin.groups.create("billing")
        await rig.admin.offsets.reset("billing", "orders", to_ms=0)
        await producer.send(Message("%DLQ%billing", b"dead"))
        page = (await rig.api("GET", "/topics", params={"q": "orders"})).json()
        (row,) = page["topics"]
        assert (row["queues"], row["messages"], row["dead_letters"]) == (3, 7, 1)
        assert row["groups"] == [{"group": "billing", "lag": 7}]
        text = text_of(await rig.page("/topics"))
        assert "billing 7" in text
        by_lag = (await rig.api("GET", "/topics", params={"sort": "lag", "order": "desc"})).json()
        assert by_lag["topics"][0]["topic"] == "orders"


async def test_more_topics_than_can_be_sorted_by_numbers_are_sorted_by_name_and_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ConsoleRig() as rig:
        for name in ("a", "b", "c"):
            await rig.admin.topics.create(name, queues=1)
        await (await rig.producer()).send(Message("c", b"1"))
        page = await rig.page("/topics", sort="messages", order="desc")
        assert page.index(">c</a>") < page.index(">a</a>") and "by name alone" not in page
        monkeypatch.setattr("pyromq.console.views.topics.SORTED_BY_NUMBERS_MAX", 2)
        page = await rig.page("/topics", sort="messages")
        assert page.index(">a</a>") < page.index(">c</a>") and "sorted by name alone" in text_of(page)


async def test_numbers_that_take_long_are_filled_in_later() -> None:
    async with ConsoleRig(first_paint_ms=0) as rig:
        await rig.admin.topics.create("orders", queues=1)
        gate, real = asyncio.Event(), rig.admin.topics.list

        async def slow(question: ListQuestion) -> TopicPage:
            await gate.wait()
            return await real(question)

        rig.desk.admin.topics.list = slow  # type: ignore[method-assign,assignment]
        page = await rig.page("/topics")
        assert "orders asking the brokers…" in text_of(page)
        assert 'data-live="1"' in page, "the page asks again soon"
        gate.set()
        (row,) = (await rig.api("GET", "/topics")).json()["topics"]
        assert (row["messages"], row["queues"]) == (0, 1), "the API waits for what it says"
        assert "asking the brokers" not in await rig.page("/topics")


async def test_a_topic_is_made_changed_restored_and_deleted_on_its_pages() -> None:
    async with ConsoleRig() as rig:
        made = await rig.act(
            "/topics/new", {"topic": "orders", "write_queues": 4, "read_queues": 4, "readable": "on", "writable": "on"}
        )
        assert "The topic orders exists now." in text_of(made)
        twice = await rig.post("/topics/new", {"topic": "orders", "readable": "on", "writable": "on"})
        assert twice.status_code == 422 and "already" in twice.text
        await rig.act(
            "/topics/orders/configuration",
            {"write_queues": 2, "read_queues": 6, "readable": "on", "message_type": "FIFO"},
        )
        config = (await rig.admin.topics.config("orders"))["broker-a"]
        assert (config.write_queue_nums, config.read_queue_nums, config.perm) == (2, 6, 4)
        assert config.attributes["message.type"] == "FIFO"
        await rig.act("/topics/orders/configuration", {"restore": "1"})
        assert (await rig.admin.topics.config("orders"))["broker-a"].write_queue_nums == 8
        wrong = await rig.post("/topics/orders/delete", {"name": "order"})
        assert wrong.status_code == 422 and "nothing was deleted" in wrong.text
        gone = await rig.act("/topics/orders/delete", {"name": "orders"})
        assert "The topic orders was deleted" in text_of(gone)
        assert (await rig.get("/topics/orders")).status_code == 404
        assert (await rig.post("/topics/orders/delete", {"name": "orders"})).status_code == 404


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "", "write_queues": 1},
        {"topic": "späte", "write_queues": 1},
        {"topic": "a", "write_queues": 0},
        {"topic": "a", "write_queues": 70_000},
        {"topic": "a", "write_queues": "many"},
        {"topic": "a", "message_type": "STRANGE"},
    ],
)
async def test_what_no_broker_would_take_is_refused_with_a_sentence(fields: dict[str, object]) -> None:
    async with ConsoleRig() as rig:
        response = await rig.post("/topics/new", fields)
        assert response.status_code in (400, 422)
        assert len(text_of(response.text)) > 50


async def test_a_deletion_shows_who_is_affected_before() -> None:
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders", queues=1)
        await (await rig.producer()).send(Message("orders", b"1"))
        await rig.admin.groups.create("billing")
        await rig.admin.offsets.reset("billing", "orders", to_ms=0)
        text = text_of(await rig.page("/topics/orders/delete"))
        assert "Messages lost 1" in text
        assert "Not consumed yet 1" in text
        assert "billing 0 1" in text


async def test_messages_are_sent_with_all_that_a_message_can_carry() -> None:
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders", queues=4)
        response = await rig.post(
            "/topics/orders/send",
            {"body": "line\r\nline", "tags": "new", "keys": "a b", "properties": "currency=EUR\nx=1=2", "count": 3},
        )
        assert "3 of 3 confirmed" in text_of(response.text)
        stored = list(rig.broker.stored("orders"))
        assert len(stored) == 3
        assert {(each.body, each.tags) for each in stored} == {(b"line\nline", "new")}
        ordered = await rig.post("/topics/orders/send", {"body": "x", "order_key": "k", "count": 5})
        assert len(set(re.findall(r"queue (\d)", ordered.text))) == 1
        delayed = await rig.post("/topics/orders/send", {"body": "later", "delay": "1h"})
        assert "1 of 1 confirmed" in text_of(delayed.text)
        assert "/api/v1/topics/orders/messages" in delayed.text, "pyromq send has no delay, the API has"
        assert len(list(rig.broker.stored("orders"))) == 8


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"body": ""}, 422),
        ({"body": "x", "tags": "a||b"}, 422),
        ({"body": "x", "properties": "no equals sign"}, 422),
        ({"body": "x", "properties": "KEYS=reserved"}, 422),
        ({"body": "x", "delay": "soon"}, 400),
        ({"body": "x", "delay": "-5s"}, 400),
        ({"body": "x", "delay": "5s", "order_key": "k"}, 422),
        ({"body": "x", "count": 0}, 422),
        ({"body": "x", "count": 1_001}, 422),
    ],
)
async def test_a_message_that_cannot_be_sent_is_refused_and_nothing_is_stored(
    fields: dict[str, object], status: int
) -> None:
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders", queues=1)
        response = await rig.post("/topics/orders/send", fields)
        assert response.status_code == status, text_of(response.text)[-300:]
        assert list(rig.broker.stored("orders")) == []


async def test_sending_to_a_topic_that_is_not_there_creates_none() -> None:
    async with ConsoleRig() as rig:
        assert (await rig.post("/topics/orderz/send", {"body": "x"})).status_code == 404
        assert "orderz" not in await rig.admin.topics.names()


def test_delays_are_read_as_people_write_them() -> None:
    assert [delay_ms(text) for text in ("90", "90s", "5 min", "2h", "1.5d", "250ms")] == [
        90_000, 90_000, 300_000, 7_200_000, 129_600_000, 250,
    ]  # fmt: skip
    for text in ("soon", "5 weeks", "", "1e999", "s", "--1"):
        with pytest.raises(BadRequestError):
            delay_ms(text or "x")


def test_a_form_becomes_the_message_that_the_api_would_take() -> None:
    new = message_from({"body": "b", "keys": " a  b ", "properties": " n = v \n\n", "delay": "1s", "count": "2"})
    assert msgspec.to_builtins(new) == {
        "body": "b",
        "keys": ["a", "b"],
        "properties": {"n": "v"},
        "delay_ms": 1_000,
        "count": 2,
    }


# --- a cluster that answers less ---


async def test_what_only_some_brokers_answer_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders", queues=1)

        async def refuse(*_: object) -> None:
            raise NoPermissionError(code=3, remark="request type not supported")

        monkeypatch.setattr(rig.admin.members, "producers", refuse)
        assert "does not tell its producers" in text_of(await rig.page("/topics/orders/clients"))
        assert "orders" in await rig.page("/topics")


async def test_a_reader_sees_pages_without_buttons_that_would_be_refused() -> None:
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders", queues=1)
        for path in (
            "/topics",
            "/topics/new",
            "/access",
            *(f"/topics/orders{tab}" for tab in ("", "/send", "/delete")),
        ):
            page = await rig.viewer.page(path)
            forms = re.findall(r'<form[^>]*method="post"[^>]*action="([^"]*)"', page)
            assert set(forms) <= {"/logout", "/topics/orders/configuration"}, path


async def test_a_cluster_with_access_control_is_asked_as_the_user_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = Credentials("root", "password-of-root")
    async with ConsoleRig(broker=LoopbackBroker(guarded_by(root))) as rig:
        refused = await rig.get("/topics")
        assert refused.status_code == 403
        assert "PYROMQ_ACCESS_KEY" in refused.text
        overview = text_of(await rig.page("/"))
        assert "Brokers" in overview, "the first page opens, and says what it could not ask"
    monkeypatch.setenv("PYROMQ_ACCESS_KEY", root.access_key)
    monkeypatch.setenv("PYROMQ_SECRET_KEY", root.secret_key)
    async with ConsoleRig(broker=LoopbackBroker(guarded_by(root))) as rig:
        assert (await rig.get("/topics")).status_code == 200
