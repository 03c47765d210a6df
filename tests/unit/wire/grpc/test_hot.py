"""Messages that are read and written by hand: exactly what the codec for any message makes of them, or nothing."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from pyromq.wire.grpc import hot
from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import Digest, GrpcMessage, ProtoTime, Resource, SystemProperties, status_of
from pyromq.wire.grpc.hot import read_send, sent_response
from pyromq.wire.grpc.protobuf import ProtobufError, decode
from pyromq.wire.grpc.services import SendMessageRequest, SendMessageResponse, SendResultEntry

TEXT = st.text(max_size=20)
SYSTEMS = st.builds(
    SystemProperties,
    tag=st.none() | TEXT,
    keys=st.lists(TEXT, max_size=3),
    message_id=TEXT,
    body_digest=st.none() | st.builds(Digest, kind=st.integers(0, 3), checksum=TEXT),
    body_encoding=st.integers(0, 2),
    message_type=st.integers(0, 6),
    born_timestamp=st.none() | st.builds(ProtoTime, seconds=st.integers(0, 1 << 40), nanos=st.integers(0, 10**9)),
    born_host=TEXT,
    queue_id=st.integers(0, 1 << 24),
    trace_context=st.none() | TEXT,
    priority=st.none() | st.integers(0, 9),
)
MESSAGES = st.builds(
    GrpcMessage,
    topic=st.none() | st.builds(Resource, resource_namespace=TEXT, name=TEXT),
    user_properties=st.dictionaries(TEXT, TEXT, max_size=3),
    system_properties=st.none() | SYSTEMS,
    body=st.binary(max_size=300),
)


@given(st.lists(MESSAGES, max_size=2))
def test_a_request_is_read_as_by_the_codec_or_not_at_all(messages: list[GrpcMessage]) -> None:
    request = SendMessageRequest(messages=messages)
    assert read_send(request.encode()) in (None, request)


@given(MESSAGES, st.randoms(use_true_random=False))
def test_damaged_requests_mean_nothing_else(message: GrpcMessage, rng: random.Random) -> None:
    data = bytearray(SendMessageRequest(messages=[message]).encode())
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(data))
        what = rng.randrange(3)
        if what == 0:
            data[place] = rng.randrange(256)
        elif what == 1:
            del data[place : place + 2]
        else:
            data[place:place] = bytes((rng.randrange(256),))
        if not data:
            return
    found = read_send(bytes(data))
    try:
        wanted = decode(SendMessageRequest, bytes(data))
    except ProtobufError:
        assert found is None
    else:
        assert found in (None, wanted)


def test_what_clients_write_is_taken() -> None:
    system = SystemProperties(
        tag="a",
        keys=["k"],
        message_id="01AB",
        body_digest=Digest(kind=1, checksum="00"),
        body_encoding=1,
        message_type=1,
        born_timestamp=ProtoTime(seconds=1_790_000_000, nanos=5),
        born_host="here",
        trace_context="00-aa-bb-01",
    )
    topic = Resource(resource_namespace="shop", name="orders")
    message = GrpcMessage(topic=topic, user_properties={"a": "b"}, system_properties=system, body=b"x" * 70_000)
    request = SendMessageRequest(messages=[message])
    assert read_send(request.encode()) == request


@given(st.text(max_size=50), st.integers(0, (1 << 63) - 1))
def test_the_response_is_that_of_the_codec(message_id: str, offset: int) -> None:
    status = status_of(StatusCode.OK)
    entry = SendResultEntry(status=status, message_id=message_id, transaction_id=message_id, offset=offset)
    wanted = SendMessageResponse(status=status, entries=[entry]).encode()
    assert sent_response(message_id, offset) in ((None, wanted) if message_id else (None,))


def test_names_that_no_topic_has_are_not_remembered() -> None:
    def request_of(size: int) -> SendMessageRequest:
        return SendMessageRequest(messages=[GrpcMessage(topic=Resource(name="n" * size), body=b"x")])

    for size in range(100, 1_500, 100):
        assert read_send(request_of(size).encode()) == request_of(size)
    kept = [len(each.name) for each in hot._resources.values() if set(each.name) == {"n"}]
    assert 100 in kept
    assert max(kept) < 600, "a stranger could fill the memory with them"
