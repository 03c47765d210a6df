"""The outbox: which transactions happened, and which messages wait for a broker (``kept``).

The table of transactions, for prepared messages:

    transaction_id   the message's id, primary key
    outcome          8 written with the application's own rows: it is visible if and only if they are
                     12 written by a check that found no row and ruled that there will be none
    topic            for people who look into the table
    recorded_ms      when; old rows are pruned

The primary key decides between a sender that is slow and a check that has lost patience: the second of the two rows
cannot be written. If it is the sender's, its database transaction fails as a whole; if it is the check's, the check
reads again and finds that the transaction happened. So no outcome that was reported can turn out wrong later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.transaction import Transaction, TransactionOutcome
from pyromq.clock import Clock, default_clock
from pyromq.databases import Result, Table, conflicts, database_of, execute
from pyromq.errors import ConfigError, MQError
from pyromq.model.message import Message
from pyromq.outbox.box import Box
from pyromq.outbox.kept import BYTES_MAX, MESSAGES_MAX, KeptMessage, KeptMessages

logger = logging.getLogger(__name__)

UNDECIDED_MS: Final = 60_000
KEEP_MS: Final = 7 * 24 * 3_600_000
_COLUMNS: Final = (("transaction_id", 128), ("outcome", 0), ("topic", 255), ("recorded_ms", 0))


class OverdueError(MQError):
    """A check has rolled the transaction back already: undo your work, raise ``undecided_ms`` if that is too soon."""


class Outbox:
    """``database`` is where your own rows are: the path of a SQLite file, a URL (``postgresql://…``), a SQLAlchemy
    ``Engine`` or ``AsyncEngine``, or ``django.db.connection``.

    A transaction without row counts as undecided for ``undecided_ms`` after its message was made, then as rolled back.
    Rows are kept for ``keep_ms``, which must be longer than brokers may ask (15 times, or for as long as they are
    down). At most ``messages_max`` messages of ``bytes_max`` bytes wait to be forwarded. Raises ConfigError.
    """

    def __init__(
        self,
        database: Any,
        *,
        table: str = "pyromq_outbox",
        undecided_ms: int = UNDECIDED_MS,
        keep_ms: int = KEEP_MS,
        messages_max: int = MESSAGES_MAX,
        bytes_max: int = BYTES_MAX,
        clock: Clock | None = None,
    ) -> None:
        if not 0 <= undecided_ms < keep_ms:
            raise ConfigError(f"undecided_ms must be less than keep_ms: {undecided_ms}, {keep_ms}")
        self.database = database_of(database)
        self._table = Table(table, "transaction_id", _COLUMNS, "recorded_ms")
        self._name = self.database.quoted(table)
        self._undecided_ms = undecided_ms
        self._keep_ms = keep_ms
        self._clock = clock or default_clock()
        limits = {"messages_max": messages_max, "bytes_max": bytes_max}
        self.kept = KeptMessages(self.database, table, self._clock, **limits)
        self._on_kept: list[Callable[[], None]] = []

    def create(self) -> None:
        """The tables, unless they are there. Raises what the database raises."""
        self.database.create(self._table)
        self.kept.create()

    # --- messages that are sent after the commit ---

    def begin(self, connection: Any = None) -> Box:
        """A block whose rows and messages are committed together: ``with outbox.begin(connection) as box: box.add(…)``.

        ``connection`` is a ``sqlite3.Connection``, or SQLAlchemy's ``Connection`` or ``Session``; with ``async with``
        its ``AsyncConnection`` or ``AsyncSession``. Without one ``box.connection`` is one of the outbox's own; with
        Django that of the thread, and the block is a ``transaction.atomic``, perhaps inside of another. The block
        commits at its end, and rolls back if it raises. A ``ForwardingProducer`` of any process sends the
        messages afterwards, in order, at least once; delays are allowed. Raises OutboxFullError at the end.
        """
        return Box(self.database, self.add, self.notify, connection)

    def add(self, connection: Any, *messages: Message) -> list[KeptMessage]:
        """Add messages inside a transaction that the caller commits. Raises OutboxFullError."""
        return self.kept.add(connection, messages)

    def refused(self, *, count_max: int = 1_000) -> list[KeptMessage]:
        """Messages that no broker will ever take, oldest first, with the reason; they stay until they are retried."""
        return self.kept.refused(count_max)

    def retry_refused(self) -> int:
        """They are forwarded again, behind nothing and before what came after them; how many."""
        changed = self.kept.retry_refused()
        self.notify()
        return changed

    def on_kept(self, function: Callable[[], None]) -> Callable[[], None]:
        """``function()`` is called, on any thread, when messages were committed in this process. Returns an undo."""
        self._on_kept.append(function)
        return lambda: self._on_kept.remove(function)

    def notify(self) -> None:
        """Messages were committed: a producer of this process need not wait for its next look."""
        for function in list(self._on_kept):
            function()

    # --- transactions of prepared messages ---

    def record(self, connection: Any, transaction: Transaction) -> None:
        """Writes the row with ``connection``, in the database transaction that your own rows are written in.

        A ``sqlite3.Connection``, or SQLAlchemy's ``Connection`` or ``Session``; with its asyncio ones
        ``await session.run_sync(outbox.record, transaction)``. From here on the table decides: if the block of the
        transaction fails, brokers will ask. Raises OverdueError.
        """
        transaction.outcome_if_failed = TransactionOutcome.UNKNOWN
        try:
            self._insert(connection, transaction.id, TransactionOutcome.COMMIT, transaction.message.topic)
        except conflicts() as error:
            text = f"transaction {transaction.id} was rolled back by a check before its row was written"
            raise OverdueError(f"{text}: undo your work; undecided_ms={self._undecided_ms} may be too short") from error

    def check(self, message: ReceivedMessage) -> TransactionOutcome:
        """For ``TransactionProducer(check=…)``: what the table says."""
        found = self._find(message.transaction_id)
        if found is not None:
            return found
        if self._clock.now_ms() - message.born_ms < self._undecided_ms:
            return TransactionOutcome.UNKNOWN
        return self.settle(message.transaction_id, message.topic)

    def settle(self, transaction_id: str, topic: str = "") -> TransactionOutcome:
        """Decides now: COMMIT if the row is there, else ROLLBACK, and the row can no longer be written."""
        found = self._find(transaction_id)
        if found is not None:
            return found
        try:
            with self.database.begin() as connection:
                self._insert(connection, transaction_id, TransactionOutcome.ROLLBACK, topic)
        except conflicts():
            found = self._find(transaction_id)
            if found is None:
                raise
            return found
        logger.info("transaction ruled out: transaction=%s topic=%s", transaction_id, topic)
        return TransactionOutcome.ROLLBACK

    def prune(self) -> int:
        """Deletes rows that are older than ``keep_ms``; how many."""
        before = {"before_ms": self._clock.now_ms() - self._keep_ms}
        return self._run(f"DELETE FROM {self._name} WHERE recorded_ms < :before_ms", before).changed

    def _insert(self, connection: Any, transaction_id: str, outcome: TransactionOutcome, topic: str) -> None:
        values = {"id": transaction_id, "outcome": outcome.value, "topic": topic, "now_ms": self._clock.now_ms()}
        columns = "(transaction_id, outcome, topic, recorded_ms)"
        execute(connection, f"INSERT INTO {self._name} {columns} VALUES (:id, :outcome, :topic, :now_ms)", values)

    def _find(self, transaction_id: str) -> TransactionOutcome | None:
        statement = f"SELECT outcome FROM {self._name} WHERE transaction_id = :id"
        rows = self._run(statement, {"id": transaction_id}).rows
        return TransactionOutcome(rows[0][0]) if rows else None

    def _run(self, statement: str, values: Mapping[str, Any]) -> Result:
        with self.database.begin() as connection:
            return execute(connection, statement, values)
