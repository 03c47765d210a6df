"""What a client learns from responses to heartbeats, without sockets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.client.core.heartbeats import Heartbeats, takes_stories
from pyromq.errors import ConnectionLostError
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.consumer import HeartbeatResponseHeader
from pyromq.wire.json.heartbeat import decode_heartbeat

APACHE = HeartbeatResponseHeader(is_support_heart_beat_v2=True, is_sub_change=False)
PYROMQ = HeartbeatResponseHeader(is_support_heart_beat_v2=True, takes_stories=True)


class Peer:
    """A connection, and the link that has it."""

    def __init__(self, header: HeartbeatResponseHeader, code: int = ResponseCode.SUCCESS) -> None:
        self.session: object = None
        self.is_open = True
        self.remote_text = "b:1"
        self.bodies: list[bytes] = []
        self.fails: Exception | None = None
        self._response = SimpleNamespace(code=code, remark="no", header_as=lambda _: header)

    async def connection(self, *, timeout_ms: int) -> Peer:
        return self

    async def request(self, code: int, header: Any, body: bytes, *, timeout_ms: int) -> Any:
        assert code == RequestCode.HEART_BEAT
        self.bodies.append(body)
        if self.fails is not None:
            raise self.fails
        return self._response


def heartbeats() -> Heartbeats:
    signer: Any = SimpleNamespace(signed=lambda header, body=b"": header)
    return Heartbeats("client", [], cast(Any, None), signer, timeout_ms=100)


@pytest.mark.parametrize(
    ("header", "code", "takes"),
    [
        (PYROMQ, ResponseCode.SUCCESS, True),
        (APACHE, ResponseCode.SUCCESS, False),
        (PYROMQ, ResponseCode.SYSTEM_ERROR, False),
    ],
)
async def test_a_connection_that_was_not_greeted_is_asked_once(
    header: HeartbeatResponseHeader, code: int, takes: bool
) -> None:
    peer: Any = Peer(header, code)
    assert takes_stories(peer) is None, "nobody asked yet"
    assert [await heartbeats().ask_whether_it_takes_stories(peer) for _ in range(3)] == [takes] * 3
    [body] = peer.bodies
    told = decode_heartbeat(body)
    assert (told.client_id, told.consumer_data_set, told.producer_data_set) == ("client", (), ())
    assert takes_stories(peer) is takes


async def test_who_does_not_answer_is_asked_again() -> None:
    peer: Any = Peer(PYROMQ)
    peer.fails = ConnectionLostError("gone")
    with pytest.raises(ConnectionLostError):
        await heartbeats().ask_whether_it_takes_stories(peer)
    assert takes_stories(peer) is None
    peer.fails = None
    assert await heartbeats().ask_whether_it_takes_stories(peer)


def _told(text: str | None) -> Any:
    return SimpleNamespace(header_as=lambda _: HeartbeatResponseHeader(odd_subscriptions=text))


def test_different_subscriptions_in_a_group_are_logged_once_with_both_texts(caplog: pytest.LogCaptureFixture) -> None:
    beats, odd = heartbeats(), '{"billing": "this client subscribes to orders (new), others to orders (paid)"}'
    for broker in ("a:1", "b:1", "a:1"):
        beats._compare(broker, _told(odd))
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        "members of a group have different subscriptions: group=billing: "
        "this client subscribes to orders (new), others to orders (paid)"
    )
    for broker in ("a:1", "b:1"):
        beats._compare(broker, _told(None))
    assert not beats._odd
    beats._compare("a:1", _told(odd))
    assert len(caplog.records) == 2, "it was mended, and is there again"
    beats._compare("a:1", _told("no JSON"))
    assert len(caplog.records) == 2
