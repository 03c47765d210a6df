"""Pipelines: streaming queries of Spark."""

from __future__ import annotations

from pyromq.console.views.pipelines import Pipelines, read_pipelines
from pyromq.console.web.api import Api, Call

functions = Api("pipelines")


@functions.get("/pipelines", summary="Streaming queries that have reported, with the state of their groups")
async def pipelines(call: Call) -> Pipelines:
    return await read_pipelines(call.desk)
