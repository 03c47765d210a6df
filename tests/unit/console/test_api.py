"""The HTTP API: what it answers, that its description is true, and that no request breaks it."""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated, Any

import httpx
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.requests import Request

from pyromq.aio import Message
from pyromq.console import api
from pyromq.console.auth.roles import ConsoleRole
from pyromq.console.web.api import Api, Call
from pyromq.console.web.discovery import declared_in
from pyromq.console.web.openapi import description_of
from pyromq.console.web.problems import STATUSES, TooManyError, headers_of, problem_of
from pyromq.console.web.streams import Events
from pyromq.errors import (
    Attempt,
    ConnectFailedError,
    ConnectionLostError,
    MQError,
    NoPermissionError,
    SendFailedError,
    TopicNotFoundError,
)
from pyromq.testing.loop_threads import ServerThread
from tests.unit.console.rig import BASE, TOKEN, ConsoleRig

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

# --- topics and messages ---


async def test_a_topic_lives_through_the_api() -> None:
    async with ConsoleRig() as rig:
        made = await rig.api("POST", "/topics", json={"name": "orders", "write_queues": 2, "read_queues": 2})
        assert made.status_code == 201
        assert len(made.json()["queues"]) == 2
        changed = await rig.api("PUT", "/topics/orders", json={"write_queues": 3, "read_queues": 3, "ordered": True})
        assert changed.json()["settings"]["broker-a"]["write_queues"] == 3
        assert (await rig.api("GET", "/topics/orders/deletion")).json()["messages"] == 0
        assert (await rig.api("DELETE", "/topics/orders")).status_code == 204
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/deletion")):
            gone = await rig.api(method, f"/topics/orders{path}")
            assert gone.status_code == 404
            assert gone.headers["content-type"] == "application/problem+json"
        assert (await rig.api("PUT", "/topics/orders", json={})).status_code == 404, "a change makes no topic"


async def test_a_message_is_produced_and_confirmed() -> None:
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders", queues=1)
        body = {"body": "42", "tags": "new", "keys": ["order-42"], "properties": {"currency": "EUR"}}
        report = (await rig.api("POST", "/topics/orders/messages", json=body)).json()
        assert report["confirmed"] == 1
        (outcome,) = report["outcomes"]
        assert (outcome["outcome"], outcome["broker"], outcome["offset"]) == ("confirmed", "broker-a", 0)
        binary = {"body_base64": base64.b64encode(b"\x00\xff").decode(), "count": 3}
        assert (await rig.api("POST", "/topics/orders/messages", json=binary)).json()["confirmed"] == 3
        stored = list(rig.broker.stored("orders"))
        assert [each.body for each in stored] == [b"42", *[b"\x00\xff"] * 3]
        assert stored[0].tags == "new"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"body": "a", "body_base64": "YQ=="}, 422),
        ({"body_base64": "not base64!"}, 422),
        ({"body": ""}, 422),
        ({"body": "a", "unknown": 1}, 400),
        ({"body": 7}, 400),
        ({"body": "a", "count": 0}, 400),
        ({"body": "a", "delay_ms": 1, "delay_level": 1}, 422),
        (b'{"body": "\\ud800"}', 400),
        (b"\xff", 400),
        ([], 400),
    ],
)
async def test_what_is_no_message_is_refused(body: Any, status: int) -> None:
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders", queues=1)
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        response = await rig.api("POST", "/topics/orders/messages", content=content)
        assert response.status_code == status, response.text
        assert response.json()["detail"]
        assert list(rig.broker.stored("orders")) == []


async def test_doubt_is_told_as_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are confirmed, the response to one is lost, the rest is not tried: never "done" on doubt."""
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders", queues=1)
        producer, sent = await rig.producer(), 0
        real = producer.send

        async def send(message: Message) -> Any:
            nonlocal sent
            sent += 1
            if sent == 40:
                raise SendFailedError("orders", [Attempt("broker-a", ConnectionLostError("cut"))])
            return await real(message)

        monkeypatch.setattr(type(producer), "send", lambda self, message: send(message))
        report = (await rig.api("POST", "/topics/orders/messages", json={"body": "a", "count": 100})).json()
        outcomes = [each["outcome"] for each in report["outcomes"]]
        assert report["confirmed"] == outcomes.count("confirmed") == 63
        assert outcomes.count("unknown") == 1
        assert outcomes.count("not attempted") == 36


async def test_pages_of_the_list_are_cut_as_asked() -> None:
    async with ConsoleRig() as rig:
        for number in range(5):
            await rig.admin.topics.create(f"t{number}", queues=1)
        first = (await rig.api("GET", "/topics", params={"size": 2, "order": "desc"})).json()
        assert [each["topic"] for each in first["topics"]] == ["t4", "t3"]
        assert first["total"] == 5
        assert (await rig.api("GET", "/topics", params={"size": 0})).status_code == 400
        assert (await rig.api("GET", "/topics", params={"kind": "odd"})).status_code == 400


# --- problems ---


def test_every_error_has_a_status_that_the_description_lists() -> None:
    def leaves(kind: type[MQError]) -> list[type[MQError]]:
        return [kind, *(leaf for child in kind.__subclasses__() for leaf in leaves(child))]

    for kind in leaves(MQError):
        error = kind.__new__(kind)
        Exception.__init__(error, "what happened")
        error.__dict__.update(code=1, remark="what happened", attempts=(), maybe_stored=False)
        assert problem_of(error).status in STATUSES, kind


def test_a_send_that_failed_for_sure_tells_the_reason_and_one_in_doubt_says_so() -> None:
    sure = SendFailedError("t", [Attempt("b", NoPermissionError(code=16, remark="no"))])
    assert problem_of(sure).status == 403
    doubt = SendFailedError("t", [Attempt("b", ConnectionLostError("cut"))])
    assert problem_of(doubt).status == 502
    assert "may be stored" in problem_of(doubt).detail
    assert problem_of(TopicNotFoundError("t")).code == 17
    assert problem_of(ConnectFailedError("gone")).code is None
    assert headers_of(TooManyError("wait", wait_ms=1_500)) == {"Retry-After": "2"}


# --- declarations ---


class _Path(msgspec.Struct):
    name: str


class _Query(msgspec.Struct):
    tags: list[str] = []
    most: Annotated[int, msgspec.Meta(ge=1)] = 5


def test_mistakes_in_a_declaration_are_found_at_import() -> None:
    functions = Api("wrong")

    async def other_parameter(call: Call, thing: int) -> None: ...

    async def no_path(call: Call) -> None: ...

    async def other_path(call: Call, path: _Path) -> None: ...

    with pytest.raises(TypeError, match="takes path, query, body, not thing"):
        functions.get("/a", summary="")(other_parameter)
    with pytest.raises(TypeError, match="the path has"):
        functions.get("/a/{b}", summary="")(no_path)
    with pytest.raises(TypeError, match="the path has"):
        functions.get("/a/{b}", summary="")(other_path)


def test_the_description_is_made_of_the_declarations() -> None:
    functions = Api("things")

    @functions.get("/things/{name}", summary="One thing")
    async def get(call: Call, path: _Path, query: _Query) -> dict[str, int]: ...  # type: ignore[empty-body]

    @functions.delete("/things/{name}", summary="No thing")
    async def delete(call: Call, path: _Path) -> None: ...

    @functions.get("/things/{name}/events", summary="Events")
    async def events(call: Call, path: _Path) -> Events: ...  # type: ignore[empty-body]

    described = description_of(functions.functions)["paths"]
    one = described["/api/v1/things/{name}"]
    assert [(each["name"], each["in"], each["required"]) for each in one["get"]["parameters"]] == [
        ("name", "path", True),
        ("tags", "query", False),
        ("most", "query", False),
    ]
    assert one["get"]["x-role"] == "read-only" and one["delete"]["x-role"] == "operator"
    assert "204" in one["delete"]["responses"] and "content" not in one["delete"]["responses"]["204"]
    stream = described["/api/v1/things/{name}/events"]["get"]["responses"]["200"]
    assert list(stream["content"]) == ["text/event-stream"]


async def test_lists_in_a_query_take_every_value() -> None:
    functions = Api("things")

    @functions.get("/things", summary="Things")
    async def things(call: Call, query: _Query) -> list[str]:
        return [*query.tags, str(query.most)]

    async with ConsoleRig() as rig:
        scope = {"type": "http", "method": "GET", "headers": [], "query_string": b"tags=a&tags=b&most=3"}
        who = rig.desk.accounts.token(TOKEN)
        assert who is not None and who.role is ConsoleRole.OPERATOR
        response = await functions.functions[0](Call(rig.desk, who, Request(scope)))
        assert not isinstance(response, Events)
        assert bytes(response.body) == b'["a","b","3"]'


# --- fuzzed from its description ---


@pytest.fixture(scope="module")
def fuzzed() -> Any:
    """A console on a loop of its own, asked from threads; streams are left out, they do not end."""
    rig, thread = ConsoleRig(), ServerThread()
    thread.acquire()
    try:
        thread.call(rig.__aenter__())
        thread.call(rig.admin.topics.create("orders", queues=1))
        yield rig, thread
        thread.call(rig.__aexit__(None, None, None))
    finally:
        thread.release()


def operations() -> list[tuple[str, str]]:
    return [
        (each.method, each.path)
        for found in declared_in(api, "functions", Api)
        for each in found.functions
        if not each.is_stream
    ]


@pytest.mark.parametrize(("method", "path"), operations(), ids=lambda each: str(each))
def test_no_request_breaks_the_api_and_every_answer_is_as_described(
    fuzzed: tuple[ConsoleRig, ServerThread], method: str, path: str
) -> None:
    """Generated from the description, valid and not: never 500, never a status or a body that it does not name."""
    rig, thread = fuzzed
    schema = schemathesis.openapi.from_dict(rig.console.description)
    operation = schema[path][method]

    def answer(case: schemathesis.Case) -> schemathesis.Response:
        asked = case.as_transport_kwargs(base_url=BASE)
        asked.pop("cookies", None)
        asked["headers"] = {**dict(asked.get("headers") or {}), "Authorization": f"Bearer {TOKEN}"}
        return schemathesis.Response.from_any(thread.call(ask(rig, asked)))

    @seed(20_261_116)
    @settings(
        max_examples=25,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def check(case: schemathesis.Case) -> None:
        case.validate_response(answer(case), checks=CHECKS)

    check()


async def ask(rig: ConsoleRig, asked: dict[str, Any]) -> httpx.Response:
    transport = httpx.ASGITransport(app=rig.console, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport) as http:
        return await asyncio.wait_for(http.request(**asked), 20)
