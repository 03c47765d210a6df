"""Frames of sends: the template and the compiled core write what ``encode_request`` writes, or leave it to it."""

from __future__ import annotations

from random import Random

import pytest

from pyromq.compiled_core import SendFrame, core
from pyromq.errors import LocalProtocolError
from pyromq.model.queue import QueueId
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import encode_request
from pyromq.wire.fast import send_request as module
from pyromq.wire.fast.send_request import SendTemplate, header_fields, send_frame

SEND = int(RequestCode.SEND_MESSAGE_V2)
ROUNDS = 3_000
TEXTS = (
    "orders",
    "%RETRY%g",
    "%d%b%%",
    '"g":"0"',
    '\\"h":"0',
    '"opaque":0',
    "grün 😀",
    "\x00\x01\x1f\x7f",
    "",
    "0",
    "\\",
)


def random_text(rng: Random) -> str:
    return "".join(
        rng.choice((*TEXTS, "KEYS\x01a b\x02", "DELAY\x013\x02", chr(rng.randrange(0xD800)), '"', "\n\t\r\b\f"))
        for _ in range(rng.randrange(6))
    )


def makers(monkeypatch: pytest.MonkeyPatch, *names: str, queue: QueueId) -> list[SendFrame]:
    """In pure Python, and in Rust where it is there."""
    topic, group, template, queue_nums = names
    made = [send_frame(topic, queue, group, template, queue_nums)]
    if core is not None:
        monkeypatch.setattr(module, "core", None)
        made.append(send_frame(topic, queue, group, template, queue_nums))
        monkeypatch.undo()
    assert isinstance(made[-1], SendTemplate)
    return made


class Facts:
    code, sys_flag = SEND, 0

    def __init__(self, topic: str, properties: str, born_ms: int, flag: int) -> None:
        self.topic, self.properties, self.born_ms, self.flag = topic, properties, born_ms, flag


def test_frames_are_those_of_the_plain_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(1)
    for _ in range(ROUNDS // 10):
        topic, group, template, nums, broker = (random_text(rng) for _ in range(5))
        queue = QueueId(topic, broker, rng.choice((0, 7, -1, 123)))
        made = makers(monkeypatch, topic, group, template, nums, queue=queue)
        for _ in range(10):
            facts = Facts(
                topic,
                random_text(rng),
                rng.choice((0, 1, 1_700_000_000_000, -5, (1 << 63) - 1, -(1 << 63))),
                rng.choice((0, 1, -1, (1 << 31) - 1, -(1 << 31))),
            )
            number, body = rng.choice((1, 77, (1 << 31) - 1)), rng.randbytes(rng.randrange(50))
            expected = encode_request(SEND, number, header_fields(facts, queue, group, template, nums), body=body)
            for each in made:
                assert each.encode(number, facts.born_ms, facts.flag, facts.properties, body) == expected


def test_what_is_no_utf_8_is_left_to_the_plain_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in makers(monkeypatch, "t", "g", "TBW102", "4", queue=QueueId("t", "broker-a", 0)):
        assert each.encode(1, 0, 0, "half \ud83d", b"x") is None
    with pytest.raises(LocalProtocolError):
        send_frame("half \ud83d", QueueId("t", "broker-a", 0), "g", "TBW102", "4")


def test_the_largest_frame_is_made_and_a_larger_one_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    made = makers(monkeypatch, "t", "g", "TBW102", "4", queue=QueueId("t", "broker-a", 0))
    around = len(made[0].encode(1, 0, 0, "", b"") or b"")
    body = bytes((16 << 20) - around)
    for each in made:
        frame = each.encode(1, 0, 0, "", body)
        assert frame is not None and len(frame) == 16 << 20
        assert each.encode(1, 0, 0, "", body + b"x") is None
        assert each.encode(1, 0, 0, "x", body) is None
