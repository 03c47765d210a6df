"""Small tables of a master for a round of metadata: one request, and only texts that the replica does not have.

    log end ─▶ text of each table, by the function that answers the request for it alone ─▶ log end ─▶ what has changed

The response is made in steps, as those of the tables are: a large table is encoded on a worker, and so is its digest. A
large text does not travel in this response; the replica hears that it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from pyromq.broker.admin.member_requests import decoded
from pyromq.broker.base.long_responses import Job, Steps
from pyromq.broker.base.responses import Immediate
from pyromq.errors import MQError
from pyromq.net.connection import Connection
from pyromq.store.tables.steps import InSteps
from pyromq.wire.json.membership import SMALL_TABLES, BrokerStatus, TablesAnswer, TablesQuery, digest_of
from pyromq.wire.received import Received

TEXT_BYTES_MAX: Final = 64 << 10  # of a table; base64 makes a third more of it


class MemberTablesHandler:
    """Request 31024."""

    def __init__(self, status: Callable[[], BrokerStatus], log_end: Callable[[], int]) -> None:
        self._status = status
        self._log_end = log_end
        self._tables: dict[int, Immediate] = {}

    def take(self, handlers: Mapping[int, Immediate]) -> None:
        """What answers the requests for each table alone; it is known when all handlers are."""
        self._tables = {code: handlers[code] for code in SMALL_TABLES}

    def query(self, connection: Connection, request: Received[None]) -> Steps:
        known = decoded(request, TablesQuery).digests
        status, texts = self._status(), dict[int, Job | None]()
        for code in known:
            answer = self._tables.get(code)
            texts[code] = (yield from _text(answer, connection, request)) if answer is not None else None
        return partial(_encoded, known, texts, status, self._log_end())


def _text(answer: Immediate, connection: Connection, request: Received[None]) -> InSteps[Job | None]:
    """Return the job that makes the text of a table; None when the table cannot be read."""
    try:
        made: Any = answer(connection, request)
        return (yield from made) if isinstance(made, Generator) else lambda: made
    except (MQError, OSError):  # the request for this table alone says why
        return None


def _encoded(known: Mapping[int, str], texts: Mapping[int, Job | None], status: BrokerStatus, end: int) -> bytes:
    changed, apart = dict[int, bytes](), list[int]()
    for code, make in texts.items():
        text = make() if make is not None else None
        if not isinstance(text, bytes):
            apart.append(code)
        elif digest_of(text) != known[code]:
            if len(text) <= TEXT_BYTES_MAX:
                changed[code] = text
            else:
                apart.append(code)
    answer = TablesAnswer(
        number=status.number,
        metadata=status.metadata,
        managed=status.managed,
        start=status.end,
        end=end,
        texts=changed,
        apart=tuple(apart),
    )
    return msgspec.json.encode(answer)
