"""Keys that anybody can make: thousands with one Java hash, and each query has to tell them apart."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from pyromq.wire.batch import BatchItem, encode_batch
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from tests.hostile.every_request import request_of
from tests.hostile.rig import Peer, beside_honest_client, count, no_stall, victim

pytestmark = pytest.mark.integration
Record = Callable[[str, object], None]


async def test_keys_with_one_hash_stall_nobody(tmp_path: Path, record_property: Record) -> None:
    messages, queries = count(50_000, 150_000), count(5, 50)
    keys = ["".join(parts) for parts in product(("Aa", "BB"), repeat=18)][: messages + 1]
    absent = keys.pop()
    async with victim(tmp_path) as server, Peer(server.broker) as peer:
        fields, _ = request_of(Code.SEND_BATCH_MESSAGE, "alike", "senders")
        for start in range(0, messages, 1_000):
            body = encode_batch([BatchItem(b"x", f"KEYS\x01{key}\x02".encode()) for key in keys[start : start + 1_000]])
            assert (await peer.ask(Code.SEND_BATCH_MESSAGE, fields, body)).code == 0
        fields, _ = request_of(Code.QUERY_MESSAGE, "alike", "readers")
        fields["endTimestamp"] = str(1 << 60)
        name = f"queries of a key whose hash {messages:,} others have"
        async with beside_honest_client(server, name, queries, record_property):
            for _ in range(queries):
                response = await peer.ask(Code.QUERY_MESSAGE, fields | {"key": absent})
                assert response.code == ResponseCode.INVALID_PARAMETER, response.remark
                assert "earlier end of the time range" in (response.remark or "")
            found = await peer.ask(Code.QUERY_MESSAGE, fields | {"key": keys[-1]})
            assert found.code == 0 and keys[-1].encode() in found.body
        await no_stall(server)
