"""Bare requests to any server, for readiness checks and for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pyromq.clock import SystemClock
from pyromq.errors import MQError
from pyromq.net import Address, Connection, ConnectionSettings, Handler, open_connection
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import Ext
from pyromq.wire.ext import header_to_ext
from pyromq.wire.frame import SerializeType
from pyromq.wire.signature import ACCESS_KEY, SIGNATURE, sign


@asynccontextmanager
async def connected(
    address: str, *, handler: Handler | None = None, serialize_type: SerializeType = SerializeType.JSON
) -> AsyncIterator[Connection]:
    settings = ConnectionSettings(serialize_type=serialize_type)
    connection = await open_connection(
        Address.parse(address), clock=SystemClock(), handler=handler, settings=settings, connect_timeout_ms=2_000
    )
    try:
        yield connection
    finally:
        connection.close()
        await connection.wait_closed()


def signed(header: Ext, access_key: str, secret_key: str) -> dict[str, str]:
    """The fields of a request as a user of that name sends them."""
    ext = {**header_to_ext(header), ACCESS_KEY: access_key}
    return {**ext, SIGNATURE: sign(ext, b"", secret_key)}


def answers(address: str, code: RequestCode, expected: bytes = b"", *, header: Ext = None) -> bool:
    """Whether the server there answers a request with success, and ``expected`` in its body."""

    async def ask() -> bool:
        async with connected(address) as connection:
            answer = await connection.request(code, header, timeout_ms=2_000)
            return answer.code == 0 and expected in answer.body

    try:
        return asyncio.run(ask())
    except MQError:
        return False
