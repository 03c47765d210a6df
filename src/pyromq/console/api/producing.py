"""Producing over HTTP."""

from __future__ import annotations

from pyromq.console.api.topics import TopicPath
from pyromq.console.views.sending import NewMessage, SendReport, send
from pyromq.console.web.api import Api, Call

functions = Api("messages")


@functions.post("/topics/{topic}/messages", summary="Send a message", status=201)
async def produce(call: Call, path: TopicPath, body: NewMessage) -> SendReport:
    """Answered when the broker has confirmed it. One outcome for each of ``count`` messages; none is counted as sent
    when that is in doubt. The topic must exist."""
    return await send(call.desk, path.topic, body)
