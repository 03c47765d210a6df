"""Listener watch: tells a journal when listeners of push consumers of this process begin, and how they end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyromq import hooks
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.hooks import ConsumeCode, ConsumeHook, Delivery
from pyromq.idempotent.skips import noticing_skips
from pyromq.testing.observing.journal import Journal, JournalEventKind


class ListenerWatch(ConsumeHook):
    """Every push consumer that is made inside the block of ``installed`` has it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @contextmanager
    def installed(self) -> Iterator[None]:
        hooks.install(self)
        try:
            yield
        finally:
            hooks.uninstall(self)

    @contextmanager
    def listening(self, delivery: Delivery) -> Iterator[None]:
        self._add(JournalEventKind.BEGAN, delivery)
        try:
            with noticing_skips() as skipped:
                yield
        except BaseException as error:  # the listener's own; raised again
            self._add(JournalEventKind.FAILED, delivery, f"{type(error).__name__}: {error}")
            raise
        if delivery.code is None or delivery.code is ConsumeCode.SUCCESS:
            self._add(JournalEventKind.CONSUMED, delivery, skipped=skipped)
        else:
            self._add(JournalEventKind.FAILED, delivery, f"the listener said {delivery.code.name}")

    def _add(
        self, kind: JournalEventKind, delivery: Delivery, text: str = "", *, skipped: Sequence[ReceivedMessage] = ()
    ) -> None:
        passed_over = {id(message) for message in skipped}
        for message in delivery.messages:
            outcome = JournalEventKind.SKIPPED if id(message) in passed_over else kind
            self._journal.add(outcome, group=delivery.group, topic=message.topic, message=message, text=text)
