"""Delayed messages: what waits, hour by hour, and cancelling."""

from __future__ import annotations

import msgspec

from pyromq.console.views.delays import Cancelled, DelaysView, cancel, read_delays
from pyromq.console.web.api import Api, Call

functions = Api("delays")


class DelayQuery(msgspec.Struct, frozen=True, kw_only=True):
    topic: str = ""


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Handles come with the list, or with the receipt of the send."""

    handles: list[str]


class CancelOutcomes(msgspec.Struct, frozen=True, kw_only=True):
    outcomes: list[Cancelled]


@functions.get("/delays", summary="Messages that wait for their time, and how many are due in each hour")
async def delays(call: Call, query: DelayQuery) -> DelaysView:
    return await read_delays(call.desk, query.topic)


@functions.post("/delays/cancel", summary="Cancel delayed messages: one outcome for each")
async def cancel_some(call: Call, body: CancelRequest) -> CancelOutcomes:
    return CancelOutcomes(outcomes=await cancel(call.desk, body.handles))
