"""The desk: what every page and every function of the API works with.

``admin`` is the client of the cluster, ``cache`` keeps its answers for a moment (forget what you changed:
``desk.cache.forget("topics")``), ``producer()`` sends, ``jobs`` do bulk work, ``history`` keeps numbers over time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from contextlib import AsyncExitStack, suppress
from typing import Any, Final, Self, TypeVar

from pyromq.aio import Admin, Client, Producer
from pyromq.clock import Clock, default_clock
from pyromq.console.auth.accounts import Accounts
from pyromq.console.auth.attempts import SignInAttempts
from pyromq.console.auth.sessions import Sessions
from pyromq.console.caches import Cache
from pyromq.console.history.keeper import History
from pyromq.console.lag_history import LagSampler
from pyromq.console.queue_rates import QueueRates
from pyromq.console.sampling import EVERY_MS, ClusterSample, Sampler
from pyromq.console.settings import ConsoleSettings
from pyromq.errors import MQError
from pyromq.model.system_names import TopicKind
from pyromq.operate.dead_letters import LetterCounts
from pyromq.operate.jobs.book import Jobs
from pyromq.operate.lists import ListQuestion
from pyromq.wire.json.route import ClusterInfo

logger = logging.getLogger(__name__)

T = TypeVar("T")

NAMES_MS: Final = 5_000  # how old a list of names may be
NUMBERS_MS: Final = 2_000  # how old numbers may be
PRODUCER_GROUP: Final = "pyromq-console"
_PASSWORD_CHECKS_MAX: Final = 2  # at the same time: each takes 32 MiB and a core


class Desk:
    """``async with Desk(settings) as desk``. Without a ``client`` it has its own."""

    def __init__(self, settings: ConsoleSettings, *, client: Client | None = None, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or default_clock()
        self.admin = Admin(client=client) if client is not None else Admin(settings.nameservers)
        self.cache = Cache(self.clock)
        self.accounts = Accounts(settings, self.clock)
        self.attempts = SignInAttempts(self.clock)
        self.sessions = Sessions(
            self.clock,
            idle_ms_max=settings.idle_ms_max,
            session_ms_max=settings.session_ms_max,
            sessions_max=settings.sessions_max,
            proof_of=self.accounts.proof_of,
        )
        self.history = History(self.clock, settings.data / "samples" if settings.data is not None else None)
        self.sampler = Sampler(self.admin, self.clock, self.history)
        self.queue_rates = QueueRates(self.clock)
        self.password_checks = asyncio.Semaphore(_PASSWORD_CHECKS_MAX)
        self.streams_open = 0
        self.jobs = Jobs(self.admin, settings.data / "jobs" if settings.data is not None else None, self.clock)
        self.lags = LagSampler(self.admin, self.clock, self.history)
        self._changes = 0  # lists from before the last one are not shown any more
        self.closing = asyncio.Event()  # streams end when the console does
        self._stack = AsyncExitStack()
        self._producer: asyncio.Task[Producer] | None = None

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.admin)
        self._stack.push_async_callback(self.cache.close)
        await self._stack.enter_async_context(self.jobs)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    def sample_on(self, *others: Coroutine[Any, Any, None]) -> None:
        """Samples are taken from now on, until the desk is closed; without it a page takes one when it needs it."""
        self.history.load()
        self._stack.callback(self.history.close)
        for samples in (self.sampler.run(), self.lags.run(), *others):
            self._stack.push_async_callback(_cancelled, asyncio.ensure_future(samples))

    # --- what several pages need ---

    async def listed(self, what: str, question: ListQuestion, load: Callable[[], Awaitable[T]]) -> T:
        """Return a list that was asked for a moment ago, unless something has changed since. Raises MQError."""
        return await self.cache.get((what, self._changes, question), NUMBERS_MS, load)

    async def listed_soon(
        self, what: str, question: ListQuestion, load: Callable[[], Awaitable[T]], *, within_ms: int
    ) -> T | None:
        """Return a list that is ready within a time; None when it takes longer, while asking goes on."""
        key = (what, self._changes, question)
        return await self.cache.get_soon(key, NUMBERS_MS, load, wait_s=within_ms / 1000)

    def changed(self, *keys: Hashable) -> None:
        """Forget these answers, and all lists, after a change."""
        self._changes += 1
        self.admin.sweeper.forget()
        self.cache.forget(*keys)

    async def topic_kinds(self) -> dict[str, TopicKind]:
        """Kinds of all topics by their names."""
        return await self.cache.get(("kinds", self._changes), NAMES_MS, self.admin.topics.kinds)

    async def letter_counts(self, group: str) -> LetterCounts:
        """Return how many dead letters of a group wait, and how many there are. Raises MQError."""
        return await self.cache.get(("dead letters", group), NUMBERS_MS, lambda: self.admin.dead_letters.count(group))

    async def sample(self) -> ClusterSample:
        """All brokers, a moment ago."""
        last = self.sampler.last
        if last is not None and self.clock.now_ms() - last.time_ms < EVERY_MS:
            return last
        return await self.cache.get("sample", NUMBERS_MS, self.sampler.take)

    async def cluster(self) -> ClusterInfo:
        """Brokers and their addresses, as name servers said a moment ago."""
        return await self.cache.get("cluster", NUMBERS_MS, self.admin.brokers.cluster)

    async def topic_names(self) -> list[str]:
        """Sorted, those of the system included."""
        return await self.cache.get("topics", NAMES_MS, self.admin.topics.names)

    async def offered_topics(self) -> list[str]:
        """Names that a form offers: topics of applications, some of them; none where brokers are away."""
        with suppress(MQError):
            return [name for name in await self.topic_names() if not name.startswith("%")][:500]
        return []

    async def group_names(self) -> list[str]:
        """Sorted, those of the system included."""
        return await self.cache.get("groups", NAMES_MS, self.admin.groups.names)

    async def producer(self) -> Producer:
        """For messages that visitors send; opened when the first one does."""
        if self._producer is None or (self._producer.done() and self._producer.exception() is not None):
            self._producer = asyncio.ensure_future(self._open_producer())
        return await asyncio.shield(self._producer)

    async def _open_producer(self) -> Producer:
        producer = Producer(client=self.admin.client, group=PRODUCER_GROUP)
        return await self._stack.enter_async_context(producer)


async def _cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
