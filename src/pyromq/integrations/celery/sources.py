"""Where messages of a connection come from: queues that are consumed, exchanges that are listened to."""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ClientClosedError
from pyromq.integrations.acknowledging import SyncAcknowledgingConsumer
from pyromq.integrations.broadcasts import BroadcastReader
from pyromq.integrations.queue_names import tag_of
from pyromq.integrations.task_queues import SyncTaskQueues

logger = logging.getLogger(__name__)

_BATCH_MAX: Final = 16  # messages that are taken at once


class ExchangeListener:
    """A queue that is bound to an exchange which is listened to; a pattern chooses among routing keys."""

    def __init__(self, reader: BroadcastReader, tag: str, pattern: re.Pattern[str] | None) -> None:
        self.reader = reader
        self._tag = tag_of(tag)
        self._pattern = pattern

    def next(self) -> ReceivedMessage | None:
        while (message := self.reader.take_nowait()) is not None:
            if self._tag and message.tags != self._tag:
                continue
            if self._pattern is None or self._pattern.match(message.tags):
                return message
        return None


class QueueSource:
    """A queue that is consumed: one thread asks, any thread finishes. Once cancelled, it closes when nothing is out."""

    def __init__(self, queues: SyncTaskQueues, queue: str, news: Callable[[], None], requeue_ms: int) -> None:
        self._news = news
        self._requeue_ms = requeue_ms
        self._ready: deque[ReceivedMessage] = deque()  # taken and not delivered
        self._has_news = True
        self._lock = threading.Lock()
        self._out = 0  # delivered and not finished
        self.is_cancelled = False
        self._is_closed = False
        self._consumer: SyncAcknowledgingConsumer = queues.consume(queue, arrived=self._arrived)
        self._opened_ms = queues.inner.client.clock.now_ms()

    def _arrived(self) -> None:
        """On the loop."""
        self._has_news = True
        self._news()

    def next(self, count_max: int | None) -> ReceivedMessage | None:
        if not self._ready:
            self.fill(_BATCH_MAX if count_max is None else min(max(1, count_max), _BATCH_MAX), 0)
        with self._lock:
            if self.is_cancelled or not self._ready:
                return None
            self._out += 1
            return self._ready.popleft()

    def fill(self, count: int, wait_ms: int) -> None:
        """Takes messages from the loop, if there may be some."""
        if self.is_cancelled or self._is_closed or not self._has_news:
            return
        self._has_news = False  # first: what arrives from now on sets it again
        batch = self._consumer.take(count, wait_ms)
        if len(batch) == count or wait_ms:
            self._has_news = True
        self._ready.extend(batch)

    def may_be_repeated(self, message: ReceivedMessage) -> bool:
        """False only if no other worker can have had it before."""
        return message.delivery_attempt > 0 or message.stored_ms <= self._opened_ms

    def finish(self, word: str, message: ReceivedMessage) -> None:
        try:
            match word:
                case "ack":
                    self._consumer.ack(message)
                case "retry":
                    self._consumer.retry(message, self._requeue_ms)
                case "dead":
                    self._consumer.dead(message)
                case _:
                    self._consumer.release([message])
        except ClientClosedError:
            logger.warning("task ended after its connection was closed, it may run again: id=%s", message.message_id)
        with self._lock:
            self._out -= 1
        self._news()  # there may be room for another one
        self._close_when_done()

    def cancel(self) -> None:
        """Whatever is not delivered yet goes back at once; the queue goes to others when the rest is finished."""
        with self._lock:
            self.is_cancelled = True
            ready, self._ready = list(self._ready), deque()
        if not self._is_closed:
            self._consumer.pause()
            if ready:
                self._consumer.release(ready)
        self._close_when_done()

    def resume(self) -> bool:
        """Goes on after ``cancel``; False when it is closed."""
        with self._lock:
            if self._is_closed:
                return False
            was_cancelled, self.is_cancelled = self.is_cancelled, False
        if was_cancelled:
            self._consumer.resume()
            self._has_news = True
        return True

    def _close_when_done(self) -> None:
        with self._lock:
            if self._is_closed or not self.is_cancelled or self._out:
                return
            self._is_closed = True
        self._consumer.close()

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = self.is_cancelled = True
        self._consumer.close()
