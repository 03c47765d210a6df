"""Small tables of a master for its replicas: texts that they do not have, and the names of those that are too large."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from pyromq.broker.admin.member_tables import TEXT_BYTES_MAX, MemberTablesHandler
from pyromq.broker.base.long_responses import PIECE, Steps, elsewhere
from pyromq.broker.base.refusals import RefusedError
from pyromq.net.connection import Connection
from pyromq.security.rights import BROKER_RIGHTS
from pyromq.store.tables.steps import step
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.json.membership import (
    SMALL_TABLES,
    BrokerStatus,
    MemberRole,
    TablesAnswer,
    TablesQuery,
    digest_of,
)
from pyromq.wire.received import Received
from tests.unit.broker.long_answers import finished

ONE, TWO, UNKNOWN = int(SMALL_TABLES[0]), int(SMALL_TABLES[1]), 99_999


class Master:
    """``ONE`` is answered at once, ``TWO`` in steps, as one of ``entries``; a failure in place of a text is raised."""

    def __init__(self) -> None:
        self.texts: dict[int, bytes | Exception] = {ONE: b"one", TWO: b"two"}
        self.entries = 1
        self.end = 100
        self.handler = MemberTablesHandler(self.status, lambda: self.status().end)
        self.handler.take({**dict.fromkeys(SMALL_TABLES, self.in_steps), ONE: self.at_once})

    def status(self) -> BrokerStatus:
        return BrokerStatus(address="a:1", role=MemberRole.MASTER, number=3, end=self.end, metadata=17, managed=True)

    def at_once(self, connection: Connection, request: Received[Any]) -> bytes:
        if isinstance(text := self.texts[ONE], Exception):
            raise text
        return text

    def in_steps(self, connection: Connection, request: Received[Any]) -> Steps:
        yield from elsewhere(self.entries)
        if isinstance(text := self.texts[TWO], Exception):
            raise text
        return lambda: text

    def steps(self, digests: dict[int, str]) -> Steps:
        body = msgspec.json.encode(TablesQuery(digests=digests))
        return self.handler.query(cast(Connection, None), Received(code=31_024, header=None, body=body))

    def answer(self, digests: dict[int, str]) -> TablesAnswer:
        return msgspec.json.decode(finished(self.steps(digests)), type=TablesAnswer)


@pytest.fixture
def master() -> Master:
    return Master()


def test_texts_travel_whose_digests_are_others(master: Master) -> None:
    answer = master.answer({ONE: digest_of(b"one"), TWO: digest_of(b"older")})
    assert (answer.texts, answer.apart) == ({TWO: b"two"}, ())
    assert (answer.number, answer.metadata, answer.managed, answer.start, answer.end) == (3, 17, True, 100, 100)
    assert master.answer({ONE: "", TWO: ""}).texts == {ONE: b"one", TWO: b"two"}
    assert not master.answer({ONE: digest_of(b"one")}).texts, "what was not asked for"


def test_a_large_text_is_asked_for_apart_if_it_has_changed(master: Master) -> None:
    master.texts[ONE] = large = bytes(TEXT_BYTES_MAX + 1)
    answer = master.answer({ONE: "", TWO: ""})
    assert (answer.texts, answer.apart) == ({TWO: b"two"}, (ONE,))
    answer = master.answer({ONE: digest_of(large), TWO: ""})
    assert (answer.texts, answer.apart) == ({TWO: b"two"}, ())


@pytest.mark.parametrize("failure", [RefusedError(cast(Any, 1), "no"), OSError(5, "the disk says no")])
@pytest.mark.parametrize("table", [ONE, TWO])
def test_a_table_that_cannot_be_read_is_asked_for_apart_and_stops_no_other(
    master: Master, table: int, failure: Exception
) -> None:
    master.texts[table] = failure
    answer = master.answer({ONE: "", TWO: "", UNKNOWN: ""})
    assert answer.apart == tuple(sorted((table, UNKNOWN))), "as one that this master does not know"
    assert list(answer.texts) == [TWO if table == ONE else ONE]


def test_tables_of_many_entries_are_made_in_steps_and_the_last_log_end_is_read_behind_them(master: Master) -> None:
    master.entries = 3 * PIECE
    steps = master.steps({TWO: ""})
    for _ in range(3):
        step(steps, None)
    master.end = 200
    answer = msgspec.json.decode(finished(steps), type=TablesAnswer)
    assert (answer.start, answer.end) == (100, 200)


def test_a_body_that_cannot_be_read_is_refused(master: Master) -> None:
    request = Received(code=31_024, header=None, body=b"{]")
    with pytest.raises(RefusedError, match="cannot be read"):
        finished(master.handler.query(cast(Connection, None), request))


def test_small_tables_are_those_of_requests_of_their_own_with_the_same_rights() -> None:
    assert {BROKER_RIGHTS[code] for code in SMALL_TABLES} == {BROKER_RIGHTS[Code.QUERY_MEMBER_TABLES]}
