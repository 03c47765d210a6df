"""A block of the application in which messages are written down together with rows: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Self, Unpack, overload

from pyromq.databases import Database, is_djangos
from pyromq.errors import ConfigError, MessageRefusedError
from pyromq.model.message import Message
from pyromq.typed import MessageOptions
from pyromq.typed import message as message_of

Add = Callable[..., object]


class Box:
    """``with outbox.begin(connection) as box``, or ``async with``: see ``Outbox.begin``.

    ``connection`` is yours, or one of the outbox's own in the same transaction as the messages.
    """

    def __init__(self, database: Database, add: Add, committed: Callable[[], None], connection: Any) -> None:
        self.connection = connection
        self._database = database
        self._add = add
        self._committed = committed
        self._messages: list[Message] = []
        self._own: AbstractContextManager[Any] | None = None
        self._own_async: AbstractAsyncContextManager[Any] | None = None

    @overload
    def add(self, *messages: Message) -> None: ...

    @overload
    def add(self, topic: str, value: object, /, **options: Unpack[MessageOptions]) -> None: ...

    def add(self, *given: Any, **options: Unpack[MessageOptions]) -> None:
        """Written down at the end of the block: messages, or a topic and a value (``add("orders", order, keys="42")``).

        Raises MessageRefusedError for what is no message, or a value that cannot be written.
        """
        if len(given) == 2 and isinstance(given[0], str):
            given = (message_of(*given, **options),)
        elif options:
            raise TypeError(f"{', '.join(sorted(options))} is for add(topic, value); a Message has its own")
        for message in given:
            if not isinstance(message, Message):
                text = f"an outbox keeps Message(topic, body), or a topic and a value, not {type(message).__name__}"
                raise MessageRefusedError(text)
        self._messages += given

    @property
    def messages(self) -> Sequence[Message]:
        return tuple(self._messages)

    # --- with ---

    def __enter__(self) -> Self:
        if hasattr(self.connection, "run_sync"):
            raise ConfigError("this connection is SQLAlchemy's asyncio one: async with outbox.begin(connection)")
        if self.connection is None or is_djangos(self.connection):
            self._own = self._database.begin()
            self.connection = self._own.__enter__()
        elif not hasattr(self.connection, "rollback"):
            text = "a sqlite3.Connection, SQLAlchemy's Connection or Session, or Django's connection was expected"
            raise ConfigError(f"{text}, not {type(self.connection).__name__}")
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if self._own is not None:
            try:
                if error is None:
                    self._write()
            except BaseException as failure:  # the block of the database rolls back; raised again
                self._own.__exit__(type(failure), failure, failure.__traceback__)
                raise
            self._own.__exit__(kind, error, traceback)
        elif error is None:
            try:
                self._write()
                self.connection.commit()
            except BaseException:  # an interrupt must not leave a transaction open; raised again
                self.connection.rollback()
                raise
        else:
            self.connection.rollback()
        if error is None:
            self._database.after_commit(self._committed)

    def _write(self) -> None:
        if self._messages:
            self._add(self.connection, *self._messages)

    # --- async with ---

    async def __aenter__(self) -> Self:
        if self.connection is None and hasattr(self._database, "engine"):
            self._own_async = self._database.engine.begin()
            self.connection = await self._own_async.__aenter__()
        if not hasattr(self.connection, "run_sync"):
            text = "async with needs SQLAlchemy's AsyncSession or AsyncConnection, or an outbox on an AsyncEngine"
            raise ConfigError(f"{text}; for {type(self.connection).__name__} it is with outbox.begin(…)")
        return self

    async def __aexit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if self._own_async is not None:
            try:
                if error is None:
                    await self._write_async()
            except BaseException as failure:  # the block of the engine rolls back; raised again
                await self._own_async.__aexit__(type(failure), failure, failure.__traceback__)
                raise
            await self._own_async.__aexit__(kind, error, traceback)
        elif error is None:
            try:
                await self._write_async()
                await self.connection.commit()
            except BaseException:  # a cancellation must not leave a transaction open; raised again
                await self.connection.rollback()
                raise
        else:
            await self.connection.rollback()
        if error is None:
            self._committed()

    async def _write_async(self) -> None:
        if self._messages:
            await self.connection.run_sync(self._add, *self._messages)
