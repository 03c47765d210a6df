"""Replies that find the request they are for."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from pyromq.client.core.callbacks import reply_message
from pyromq.client.producer.pending_replies import PendingReplies
from pyromq.errors import ClientClosedError
from pyromq.wire.headers.callback import PushReplyHeader


def push(correlation_id: str) -> PushReplyHeader:
    return PushReplyHeader(
        producer_group="g",
        topic="C_REPLY_TOPIC",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=5,
        flag=0,
        properties=f"CORRELATION_ID\x01{correlation_id}\x02",
        born_host="10.0.0.1:5",
        store_host="/10.0.0.2:10911",
        store_timestamp=6,
    )


def test_a_reply_finds_its_request() -> None:
    async def main() -> None:
        replies = PendingReplies(Random(1))
        (one, first), (two, second) = replies.expect(), replies.expect()
        assert one != two
        assert replies.arrived(reply_message(push(two), b"x", 1))
        assert not replies.arrived(reply_message(push(two), b"again", 1))
        assert not replies.arrived(reply_message(push("stranger"), b"x", 1))
        assert (first.done(), (await second).body) == (False, b"x")
        replies.forget(two)
        replies.close()
        with pytest.raises(ClientClosedError):
            await first

    asyncio.run(main())
