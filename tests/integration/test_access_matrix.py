"""Every request code × every role, generated from the table of rights, against servers that are guarded.

    nobody             unsigned                                    a signature is asked for
    forger             a known name, a wrong signature             refused
    nothing            a user without policies                     refused, with the first need named
    other              the same rights on other resources          refused likewise
    right              exactly what the row asks for               served (what the handler then says is its own affair)
    root               a super user                                served

Nothing that was refused leaves a trace in what the servers keep.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from pyromq.nameserver import service
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.security.resources import ALL_NAMES, Action, Need, topic
from pyromq.security.rights import BROKER_RIGHTS, NAMESERVER_RIGHTS, Right
from pyromq.security.user_store import UserStore
from pyromq.testing import LoopbackBroker
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import Command, encode_request
from pyromq.wire.frame import FrameDecoder, SerializeType
from pyromq.wire.received import decode_received
from tests.hostile.every_request import request_of, served_codes
from tests.integration.guarded import (
    ROOT,
    Client,
    ask_as,
    book_of,
    guarded_access,
    guarded_broker,
    memory_folder,
    signed,
)
from tests.unit.security.people import add_user, allow, entry

pytestmark = pytest.mark.integration

TOPIC, GROUP = "matrix-topic", "matrix-group"
DENIED = ("has no permission to access", "check signature failed", "username cannot be null", "is not found.")
HERE = "127.0.0.1"
OBJECTS = {int(Code.CONSUMER_SEND_MSG_BACK): [Need(topic(TOPIC), (Action.SUB,))]}  # of what is found by its position


def is_denied(response: Command) -> bool:
    remark = response.remark or ""
    return response.code == ResponseCode.NO_PERMISSION and any(text in remark for text in DENIED)


def needs_of(right: Right, code: int, ext: dict[str, str], body: bytes, cluster: str) -> list[Need]:
    (frame,) = FrameDecoder().feed(encode_request(code, 1, ext, body=body))
    return list(right.needs(decode_received(frame), cluster))


def grant(book: UserStore, user: str, needs: list[Need], *, elsewhere: bool) -> None:
    """Exactly the needs, or the same for other names."""
    merged: dict[str, set[str]] = {}
    for need in needs:
        name = f"{need.resource.name.rstrip('*')}elsewhere" if elsewhere else need.resource.name
        merged.setdefault(f"{need.resource.type.value}:{name}", set()).add(need.actions[0].value)
    if merged:
        allow(book, user, *(entry(resource, *sorted(actions)) for resource, actions in merged.items()))


def refusal_of(user: str, need: Need) -> str:
    return f"User:{user} has no permission to access {need.resource} from {HERE}, no matched policies."


async def check(
    address: str, book: UserStore, right: Right, code: int, request: tuple[dict[str, str], bytes], cluster: str
) -> None:
    ext, body = request
    needs = needs_of(right, code, ext, body, cluster)
    other, fitting = f"other-{code}", f"right-{code}"
    for user in (other, fitting):
        add_user(book, user)
    grant(book, other, needs, elsewhere=True)
    grant(book, fitting, [*needs, *OBJECTS.get(code, ())], elsewhere=False)
    forms = [SerializeType.JSON, *([SerializeType.ROCKETMQ] if code < 32_768 else [])]
    async with Client(address) as peer:
        for form in forms:
            unsigned = await peer.ask(code, ext, body, serialize_type=form)
            assert (unsigned.code, unsigned.remark) == (ResponseCode.NO_PERMISSION, "username cannot be null.")
            forged = await peer.ask(code, signed(ext, body, "root", "wrong"), body, serialize_type=form)
            assert (forged.code, forged.remark) == (ResponseCode.NO_PERMISSION, "check signature failed.")
            strange = await peer.ask(code, signed(ext, body, "stranger"), body, serialize_type=form)
            assert (strange.code, strange.remark) == (ResponseCode.NO_PERMISSION, "User:stranger is not found.")
            for user in ("nothing", other):
                response = await ask_as(peer, user, code, ext, body, serialize_type=form)
                if needs:
                    expected = (ResponseCode.NO_PERMISSION, refusal_of(user, needs[0]))
                    assert (response.code, response.remark) == expected
            served = await ask_as(peer, fitting, code, ext, body, serialize_type=form)
            assert not is_denied(served), served.remark
    async with Client(address) as peer:
        served = await ask_as(peer, "root", code, ext, body)
        assert not is_denied(served), served.remark


# --- broker ---


@pytest.fixture(scope="module")
def broker() -> Iterator[LoopbackBroker]:
    with memory_folder() as folder, guarded_broker(folder=folder) as running:
        book = book_of(running)
        add_user(book, "nothing")
        add_user(book, "somebody")
        yield running


def broker_request(code: Code) -> tuple[dict[str, str], bytes]:
    ext, body = request_of(code, TOPIC, GROUP)
    user = {"username": "somebody", "subject": "User:somebody"}
    match code:
        case Code.AUTH_CREATE_USER:
            return {**ext, "username": "created"}, json.dumps({"password": "some-password"}).encode()
        case Code.AUTH_UPDATE_USER | Code.AUTH_GET_USER | Code.AUTH_LIST_USER:
            return {**ext, **user}, json.dumps({"userStatus": "enable"}).encode()
        case Code.AUTH_DELETE_USER:
            return {**ext, "username": "created"}, b""
        case Code.AUTH_CREATE_ACL | Code.AUTH_UPDATE_ACL:
            policy = {"entries": [{"resource": "Topic:x", "actions": ["Pub"], "decision": "Allow"}]}
            return {**ext, **user}, json.dumps({"policies": [policy]}).encode()
        case Code.AUTH_DELETE_ACL | Code.AUTH_GET_ACL | Code.AUTH_LIST_ACL:
            return {**ext, **user}, b""
    return ext, body


@pytest.mark.parametrize("code", served_codes(), ids=lambda code: f"{int(code)}-{code.name}")
async def test_every_request_of_a_broker_and_every_role(broker: LoopbackBroker, code: Code) -> None:
    right = BROKER_RIGHTS[code]
    await check(broker.address, book_of(broker), right, int(code), broker_request(code), "DefaultCluster")


async def test_what_is_refused_changes_nothing(broker: LoopbackBroker) -> None:
    """All of it at once, from somebody who may do nothing; the broker is as it was."""

    async def state() -> list[Any]:
        async with Client(broker.address) as peer:
            codes = (Code.GET_ALL_TOPIC_CONFIG, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_BROKER_CONFIG)
            answers = [await ask_as(peer, "root", code) for code in (*codes, Code.GET_ALL_CONSUMER_OFFSET)]
            users = await ask_as(peer, "root", Code.AUTH_LIST_USER)
            return [answer.body for answer in (*answers, users)]

    before, end = await state(), broker.broker.store.end_position
    async with Client(broker.address) as peer:
        for code in served_codes():
            ext, body = broker_request(code)
            for user in ("nothing", "stranger"):
                await ask_as(peer, user, code, ext, body)
            await peer.ask(int(code), ext, body)
    assert await state() == before
    assert broker.broker.store.end_position == end


async def test_unknown_codes_and_bad_headers_tell_strangers_nothing(broker: LoopbackBroker) -> None:
    async with Client(broker.address) as peer:
        for code, ext in ((9_999, {}), (Code.PULL_MESSAGE, {"queueId": "many"})):
            unsigned = await peer.ask(int(code), ext)
            assert (unsigned.code, unsigned.remark) == (ResponseCode.NO_PERMISSION, "username cannot be null.")
            known = await ask_as(peer, "root", int(code), dict(ext))
            assert known.code != ResponseCode.NO_PERMISSION


async def test_nobody_rises_above_their_station(broker: LoopbackBroker) -> None:
    """Who may change users of the cluster still makes no super users, and takes over none."""
    book = book_of(broker)
    add_user(book, "climber")
    allow(book, "climber", entry("Cluster:*", "Update", "Get"))

    async def change(code: Code, name: str, **fields: str) -> Command:
        async with Client(broker.address) as peer:
            return await ask_as(peer, "climber", code, {"username": name}, json.dumps(fields).encode())

    for response in (
        await change(Code.AUTH_CREATE_USER, "mighty", password="some-password", userType="Super"),
        await change(Code.AUTH_UPDATE_USER, "climber", userType="Super"),
        await change(Code.AUTH_UPDATE_USER, "root", password="mine-now"),
        await change(Code.AUTH_UPDATE_USER, "root", userStatus="disable"),
        await change(Code.AUTH_DELETE_USER, "root"),
    ):
        assert response.code == ResponseCode.NO_PERMISSION
        assert "super user" in (response.remark or "")


# --- name server ---


@pytest.fixture(scope="module")
def names() -> Iterator[tuple[str, UserStore]]:
    """On a loop of its own, in a thread."""
    from threading import Event, Thread

    ready, loop = Event(), asyncio.new_event_loop()
    found: list[Any] = []

    async def serve() -> None:
        stop = asyncio.Event()
        async with NameServer(NameServerSettings(port=0, access=guarded_access())) as server:
            assert server.guard is not None
            found.extend((str(server.address), server.guard.book, stop))
            ready.set()
            await stop.wait()

    thread = Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(30)
    address, book, stop = found
    add_user(book, "nothing")
    add_user(book, "somebody")
    yield address, book
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)
    loop.close()


def nameserver_request(code: Code) -> tuple[dict[str, str], bytes]:
    if code >= Code.AUTH_CREATE_USER:
        return broker_request(code)
    fields = {
        **{"topic": TOPIC, "namespace": "n", "key": "k", "value": "v", "cluster": "c", "clusterName": "c"},
        **{"brokerName": "broker-m", "brokerAddr": "127.0.0.1:10911", "haServerAddr": "127.0.0.1:10912"},
        **{"brokerId": "0"},
    }
    return fields, b"scanNotActiveBrokerInterval=5000" if code == Code.UPDATE_NAMESRV_CONFIG else b""


@pytest.mark.parametrize(
    "code", [Code(code) for code in sorted(service._HANDLES)], ids=lambda code: f"{int(code)}-{code.name}"
)
async def test_every_request_of_a_name_server_and_every_role(names: tuple[str, UserStore], code: Code) -> None:
    address, book = names
    await check(address, book, NAMESERVER_RIGHTS[code], int(code), nameserver_request(code), ALL_NAMES)


async def test_a_route_is_not_poisoned(names: tuple[str, UserStore]) -> None:
    """A user that may register a broker from its own machine leads nobody elsewhere."""
    address, book = names
    add_user(book, "broker-user")
    allow(book, "broker-user", entry("Cluster:c", "Update"), entry("Topic:broker-m", "Update"))
    fields, _ = nameserver_request(Code.REGISTER_BROKER)
    async with Client(address) as peer:
        own = await ask_as(peer, "broker-user", Code.REGISTER_BROKER, fields)
        assert own.code == ResponseCode.SUCCESS
        for changed in (
            {"brokerAddr": "203.0.113.9:10911"},
            {"brokerAddr": "evil.example:10911"},
            {"haServerAddr": "203.0.113.9:10912"},
            {"brokerName": "broker-n"},
            {"clusterName": "d"},
        ):
            response = await ask_as(peer, "broker-user", Code.REGISTER_BROKER, {**fields, **changed})
            assert response.code == ResponseCode.NO_PERMISSION, changed
        anywhere = await ask_as(peer, "root", Code.REGISTER_BROKER, {**fields, "brokerAddr": "203.0.113.9:10911"})
        assert anywhere.code == ResponseCode.SUCCESS
    assert ROOT.secret_key not in repr(ROOT)
