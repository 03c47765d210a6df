"""Prepared messages."""

from __future__ import annotations

import msgspec

from pyromq.console.views.transactions import HalfMessages, read_half_messages
from pyromq.console.web.api import Api, Call

functions = Api("transactions")


class HalfQuery(msgspec.Struct, frozen=True, kw_only=True):
    topic: str = ""


@functions.get("/transactions", summary="Prepared messages that are neither committed nor rolled back")
async def transactions(call: Call, query: HalfQuery) -> HalfMessages:
    return await read_half_messages(call.desk, query.topic)
