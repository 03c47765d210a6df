"""Search of the whole cluster."""

from __future__ import annotations

import msgspec

from pyromq.console.web.api import Api, Call
from pyromq.operate.reading.cluster_search import FoundInCluster

functions = Api("search")


class FindQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``q`` is an id or a key as a whole, or a part of a name; ``names`` looks at topics and groups alone."""

    q: str
    names: bool = False


@functions.get("/search", summary="Find messages, topics, groups, clients and users by one text")
async def search(call: Call, query: FindQuery) -> FoundInCluster:
    """Messages are found by id and key in all topics, as far as time allows; ``skipped`` says what was left out."""
    return await call.desk.admin.search.find(query.q, names_only=query.names)
