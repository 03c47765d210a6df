"""The app: decorators that collect functions, and ways to run them.

One app takes functions and coroutines. It runs on one event loop; coroutines run there, functions on threads.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack, overload

from pyromq.app.listeners import AppListener, ConsumeOptions, checked_listener
from pyromq.app.middleware import Middleware
from pyromq.app.providers import Override, Provider
from pyromq.app.run import AppRunState, Run, build
from pyromq.app.running import Running
from pyromq.app.signatures import check_function, name_of
from pyromq.app.transactions import AppTransaction
from pyromq.client.core.client import Client
from pyromq.client.core.options import ClientOptions, check_options, checked_group
from pyromq.client.core.settings import ProducerSettings
from pyromq.client.core.stop_signals import stop_signals
from pyromq.client.producer.producer import Producer
from pyromq.client.sync.faces import Producer as SyncProducer
from pyromq.client.sync.loop_thread import new_event_loop
from pyromq.errors import ClientClosedError, ConfigError
from pyromq.model.message import SendReceipt
from pyromq.model.names import validate_topic
from pyromq.operate.admin import Admin
from pyromq.typed import MessageOptions, decoder_for

if TYPE_CHECKING:
    from pyromq.app.asyncapi import Declared

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

DRAIN_MS: Final = 30_000


class App:
    """``app = pyromq.App("127.0.0.1:9876", name="shop")``; then ``@app.consume("orders", group="billing")``.

    ``nameservers`` may be left to the environment (PYROMQ_NAMESERVER) or to ``run``. ``name`` is the group that
    ``app.producer`` sends in the name of, the default of consumer groups, and the title of documents.
    ``drain_timeout_ms`` is how long a stop waits for listeners. Options are those of every client: ``credentials``,
    ``tls``, ``namespace``, ``instance_name``, ``client_settings``.

    Raises ConfigError, InvalidNameError, and TypeError for an unknown option.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        name: str = "",
        drain_timeout_ms: int = DRAIN_MS,
        producer_settings: ProducerSettings | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        check_options("App", options, ClientOptions)
        if name:
            checked_group(name)
        if not isinstance(drain_timeout_ms, int) or drain_timeout_ms < 1:
            raise ConfigError(f"drain_timeout_ms must be positive, not {drain_timeout_ms!r}")
        self.nameservers = nameservers
        self.name = name
        self.drain_timeout_ms = drain_timeout_ms
        self.producer_settings = producer_settings
        self.options: Mapping[str, Any] = options
        self.listeners: list[AppListener] = []
        self.checks: dict[str, Callable[..., Any]] = {}  # of transactions, by topic
        self.providers: dict[str, Provider] = {}
        self.middlewares: list[Middleware] = []
        self.on_start_functions: list[Callable[..., Any]] = []
        self.on_stop_functions: list[Callable[..., Any]] = []
        self.declared: list[Declared] = []
        self._run: Run | None = None
        self._stop_soon: Callable[[], object] | None = None  # while ``serve`` runs

    def __repr__(self) -> str:
        return f"<App {self.name or 'without name'} listeners={len(self.listeners)}>"

    # --- functions of the application ---

    def consume(
        self,
        topic: str | Sequence[str],
        *,
        group: str | None = None,
        tags: str = "*",
        sql: str = "",
        **options: Unpack[ConsumeOptions],
    ) -> Callable[[F], F]:
        """The function below is called with messages of ``topic`` (or of several), as a member of ``group``.

        ``tags`` or ``sql`` choose some of them. What parameters may be is said in ``pyromq.app.signatures``; what may
        be returned and raised in ``pyromq.results``. A body that does not decode is a dead letter at once. Options:
        ``ConsumeOptions``. Raises ConfigError, InvalidNameError, InvalidExpressionError, and TypeError.
        """
        return self._consume(topic, group, tags, sql, options, replies=False)

    def reply(
        self,
        topic: str | Sequence[str],
        *,
        group: str | None = None,
        tags: str = "*",
        sql: str = "",
        **options: Unpack[ConsumeOptions],
    ) -> Callable[[F], F]:
        """The function below answers requests (``app.request``, ``producer.request``): what it returns is encoded and
        sent to who asked. Otherwise as ``consume``."""
        return self._consume(topic, group, tags, sql, options, replies=True)

    def _consume(
        self,
        topic: str | Sequence[str],
        group: str | None,
        tags: str,
        sql: str,
        options: ConsumeOptions,
        *,
        replies: bool,
    ) -> Callable[[F], F]:
        if callable(topic):
            raise ConfigError('a listener names its topic: @app.consume("orders", group="billing")')
        topics = (topic,) if isinstance(topic, str) else tuple(topic)
        chosen = group or self.name
        if not chosen:
            raise ConfigError(f'which group consumes {", ".join(topics)}? Say group="billing", or App(name="shop")')

        def add(function: F) -> F:
            self._require_stopped("another listener")
            check_function("listener ", function)
            listener = AppListener(function, topics, chosen, tags, sql, dict(options), replies)
            self.listeners.append(checked_listener(listener))
            return function

        return add

    def transaction_check(self, *topics: str) -> Callable[[F], F]:
        """The function below says what became of a transaction whose outcome a broker has not heard.

        It gets ``message`` or the body, and returns a TransactionOutcome, or None while that is not known.
        """
        if not topics or not all(isinstance(topic, str) for topic in topics):
            raise ConfigError('a check names its topics: @app.transaction_check("orders")')

        def add(function: F) -> F:
            self._require_stopped("another check")
            check_function("check ", function)
            for topic in topics:
                validate_topic(topic)
                if topic in self.checks:
                    raise ConfigError(f"topic {topic} has a check already: {name_of(self.checks[topic])}")
                self.checks[topic] = function
            return function

        return add

    @overload
    def provide(self, function: F, /) -> F: ...
    @overload
    def provide(self, *, scope: str = "app") -> Callable[[F], F]: ...
    def provide(self, function: Any = None, *, scope: str = "app") -> Any:
        """What the function below gives is handed to parameters of its name, or of the type that it says it returns.

        Made once, or with ``scope="message"`` for each message. What stands behind ``yield`` runs at the end.
        """

        def add(function: F) -> F:
            self._require_stopped("another provider")
            provider = Provider(function, scope)
            if provider.name in self.providers:
                raise ConfigError(f"there is a provider {provider.name!r} already; app.override(…) is for tests")
            self.providers[provider.name] = provider
            return function

        return add if function is None else add(function)

    @contextmanager
    def override(self, **values: Any) -> Iterator[Self]:
        """In this block the app has these values instead of what its providers give: for tests."""
        self._require_stopped("other values")
        for name in values:
            if name not in self.providers:
                known = ", ".join(sorted(self.providers)) or "none"
                raise ConfigError(f"there is no provider {name!r} to override; there are {known}")
        before = dict(self.providers)
        self.providers.update({name: Override(name, value) for name, value in values.items()})
        try:
            yield self
        finally:
            self.providers.clear()
            self.providers.update(before)

    @overload
    def middleware(self, function: F, /) -> F: ...
    @overload
    def middleware(self, *, groups: Collection[str] = ()) -> Callable[[F], F]: ...
    def middleware(self, function: Any = None, *, groups: Collection[str] = ()) -> Any:
        """The function below is around every call of a listener, of ``groups`` or of all; the first one outermost.

        ``async def (message, call_next)`` for coroutines, the same with ``def`` for functions, a generator with
        ``(message)`` for both: see ``pyromq.app.middleware``.
        """

        def add(function: F) -> F:
            self._require_stopped("another middleware")
            self.middlewares.append(Middleware(function, groups))
            return function

        return add if function is None else add(function)

    def on_start(self, function: F) -> F:
        """Called before the first message comes; functions on a thread. It may ask for ``app``, ``producer`` and what
        is provided for the app. What it raises ends the start."""
        self._require_stopped("another hook")
        check_function("on_start ", function)
        self.on_start_functions.append(function)
        return function

    def on_stop(self, function: F) -> F:
        """Called after the last listener has ended, the last one first; otherwise as ``on_start``."""
        self._require_stopped("another hook")
        check_function("on_stop ", function)
        self.on_stop_functions.append(function)
        return function

    def sends(self, topic: str, kind: Any, *, tags: str = "", description: str = "") -> None:
        """Says what the app sends, for its AsyncAPI document."""
        from pyromq.app.asyncapi import Declared

        self.declared.append(Declared(validate_topic(topic), kind, tags, description))

    # --- sending ---

    @property
    def client(self) -> Client:
        """The connections of the run, to be shared: ``aio.Admin(client=app.client)``. Raises ClientClosedError."""
        return self._running().client

    @property
    def producer(self) -> Producer:
        """For coroutines. Raises ClientClosedError while the app does not run."""
        return self._running().producer

    @property
    def sync_producer(self) -> SyncProducer:
        """For functions on threads; they may also have a parameter ``producer``."""
        return self._running().sync_producer

    async def send(
        self, topic: str, value: Any, *, timeout_ms: int | None = None, **options: Unpack[MessageOptions]
    ) -> SendReceipt:
        """Encodes a value and sends it; options are those of ``Message``. Raises what ``Producer.send`` raises."""
        return await self.producer.send(topic, value, timeout_ms=timeout_ms, **options)

    async def recall(self, sent: SendReceipt | str) -> str:
        """Cancels a message with a time of its own (``delay=``, ``deliver_at=``) while it waits; returns its id.

        ``sent`` is its receipt, or the receipt's ``recall_handle``. Raises ConfigError for a message that cannot be
        cancelled, BrokerError when it is too late.
        """
        handle = sent if isinstance(sent, str) else sent.recall_handle
        if not handle:
            raise ConfigError("this message cannot be recalled: only one that waits for a time of its own has a handle")
        return await Admin(client=self.client).delays.recall(handle)

    async def request(
        self,
        topic: str,
        value: Any,
        reply: type[T],
        *,
        timeout_ms: int | None = None,
        **options: Unpack[MessageOptions],
    ) -> T:
        """Sends a value and waits for the reply, which is decoded as ``reply``.

        Raises NoReplyError when none comes in time, BodyError when it does not decode, and what ``send`` raises.
        """
        decode = decoder_for(reply)
        found = await self.producer.request(topic, value, timeout_ms=timeout_ms, **options)
        return decode(found.body, found)

    def transaction(
        self, topic: str, value: Any, *, check_after_ms: int = 0, **options: Unpack[MessageOptions]
    ) -> AppTransaction:
        """``async with app.transaction("orders", order) as transaction``; with ``with`` in functions on threads.

        The message is seen if and only if the block ends without an exception. ``@app.transaction_check(topic)``
        answers for it after a crash. Raises ConfigError without a check.
        """
        return AppTransaction(self._running(), topic, value, {**options, "check_after_ms": check_after_ms})

    # --- running ---

    def check(self) -> None:
        """Whether the functions fit what they will be called with; ``run`` does so, too. Raises ConfigError."""
        build(self)

    @property
    def state(self) -> str:
        """starting, running, draining or stopped."""
        return (self._run.state if self._run is not None else AppRunState.STOPPED).value

    def running(self, nameservers: str | Sequence[str] = (), *, instance: str = "") -> Running:
        """The app runs in this block, ``with`` or ``async with``; ``nameservers`` in place of its own.

        ``instance`` makes names of broadcasting members last, where several run on one machine.
        """
        return Running(self, nameservers, instance)

    async def __aenter__(self) -> Self:
        await self.begin(Run(self))
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.end()

    @asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncIterator[None]:
        """For ASGI frameworks: ``FastAPI(lifespan=app.lifespan)``. Their server hears signals and ends the block."""
        async with self:
            yield

    async def begin(self, run: Run) -> None:
        """Opens a run; ``end`` must follow. Raises ConfigError when the app runs already."""
        self._require_stopped("a second run")
        self._run = run
        try:
            await run.open()
        except BaseException:  # it does not run; raised again
            self._run = None
            raise

    async def end(self) -> None:
        """Drains and closes; does nothing when the app does not run."""
        if self._run is not None:
            try:
                await self._run.close()
            finally:
                self._run = None

    def run(self, nameservers: str | Sequence[str] = ()) -> None:
        """Runs until SIGTERM, Ctrl-C or ``stop()``: then takes no more, finishes what runs, commits, calls on_stop.

        A second signal ends the process at once. Raises ConfigError, what the application's own hooks raise, and
        NoPermissionError when access control lets one of its groups read nothing.
        """
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self.serve(nameservers))

    async def serve(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        instance: str = "",
        on_ready: Callable[[Run], Any] | None = None,
    ) -> None:
        """``run`` on a loop that runs already. ``on_ready(run)`` is called when messages begin to come.

        Raises what ``run`` raises.
        """
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        signals = 0

        def heard() -> None:
            nonlocal signals
            signals += 1
            if signals > 1:
                logger.error("second signal: ended at once, unfinished messages come again")
                logging.shutdown()
                os._exit(128 + signal.SIGTERM)
            loop.call_soon_threadsafe(stop.set)

        self._require_stopped("a second run")
        self._stop_soon = lambda: loop.call_soon_threadsafe(stop.set)
        try:
            with stop_signals(heard):
                await self.begin(run := Run(self, nameservers, instance))
                try:
                    if on_ready is not None and not stop.is_set():
                        on_ready(run)
                    await run.until(stop)
                finally:
                    await self.end()
        finally:
            self._stop_soon = None

    def stop(self) -> None:
        """Ends ``run`` and ``serve``, from any thread; does nothing when neither runs."""
        if self._stop_soon is not None:
            self._stop_soon()

    def _running(self) -> Run:
        if self._run is None:
            raise ClientClosedError("the app does not run: use app.run(), or async with app")
        return self._run

    def _require_stopped(self, what: str) -> None:
        if self._run is not None:
            raise ConfigError(f"{what} cannot be added or called while the app is running")

    # --- documents ---

    def asyncapi(self, *, version: str = "1.0.0", description: str = "") -> dict[str, Any]:
        """An AsyncAPI 3 document of what the app consumes, replies to and (``sends``) sends. Raises ConfigError."""
        from pyromq.app.asyncapi import document

        return document(self, build(self), version=version, description=description)
