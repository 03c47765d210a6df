"""An app while it runs: everything is opened in one order and closed in the opposite one.

    client ─ producer ─ providers ─ transactions ─ on_start │ consumers │ … │ consumers drain │ on_stop ─ providers ─ …

Consumers are the last to open and the first to close: while a listener runs, all that it may need is there. ``close``
waits for listeners for ``drain_timeout_ms``; what they have not finished then comes again, to another member.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyromq.app.calls import Call, Values, arguments_of, build_call, build_hook
from pyromq.app.listeners import AppListener, GroupPlan, plans_of
from pyromq.app.providers import Provider, ProviderScope, in_order, make_for_app
from pyromq.app.signatures import Allowed, ParameterKind, Signature, read_signature
from pyromq.client.consumer.push_consumer import PushConsumer
from pyromq.client.core.client import Client
from pyromq.client.core.options import client_for
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.settings import ClientSettings, client_settings_of
from pyromq.client.core.transaction import TransactionOutcome
from pyromq.client.producer.producer import Producer
from pyromq.client.sync.faces import Producer as SyncProducer
from pyromq.client.sync.loop_thread import LoopThread, RunningLoop
from pyromq.client.sync.transactions import TransactionProducer as SyncTransactionProducer
from pyromq.client.transactions.transaction_producer import TransactionProducer
from pyromq.errors import ClientClosedError, ConfigError, DeadLetterError, MQError
from pyromq.idempotent import Marks, message_key, once, once_for_batch
from pyromq.idempotent.places import place_of
from pyromq.model import property_names as names
from pyromq.typed import encode
from pyromq.typed.listeners import is_coroutine_function

if TYPE_CHECKING:
    from pyromq.app.app import App

logger = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_NAME: Final = "pyromq-app"


class AppRunState(Enum):
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Built:
    """What can be said of an app without a network: its functions fit what they are called with."""

    plans: Sequence[GroupPlan]
    providers: Sequence[tuple[Provider, Signature]]
    listeners: Sequence[Signature]
    checks: Sequence[Signature]
    on_start: Sequence[Signature]
    on_stop: Sequence[Signature]

    @property
    def signatures(self) -> dict[str, Signature]:
        return {provider.name: signature for provider, signature in self.providers}


def build(app: App) -> Built:
    """Reads all signatures. Raises ConfigError for the first that does not fit."""
    providers = app.providers
    for_message = frozenset(ParameterKind)
    once_only = {name: each for name, each in providers.items() if each.scope is ProviderScope.APP}

    def hook(what: str, function: Any) -> Signature:
        return read_signature(
            what, function, Allowed(frozenset((ParameterKind.APP, ParameterKind.PRODUCER)), once_only)
        )

    built = Built(
        plans=plans_of(app.listeners),
        providers=in_order(providers),
        listeners=[
            read_signature("listener ", each.function, Allowed(for_message, providers, each.is_batch))
            for each in app.listeners
        ],
        checks=[read_signature("check ", each, Allowed(for_message, providers)) for each in app.checks.values()],
        on_start=[hook("on_start ", function) for function in app.on_start_functions],
        on_stop=[hook("on_stop ", function) for function in app.on_stop_functions],
    )
    for listener in app.listeners:
        for middleware in app.middlewares:
            middleware.around(_nothing, listener.group, listener.name, is_coroutine=listener.is_coroutine)
    nowhere = Values(app, None, None, dict.fromkeys(providers), built.signatures)
    for listener, signature in zip(app.listeners, built.listeners, strict=True):
        _call_of(listener, signature, nowhere)
    for signature in built.checks:
        build_call(signature, nowhere)
    return built


def _call_of(listener: AppListener, signature: Signature, values: Values) -> Call:
    return build_call(signature, values, is_batch=listener.is_batch)


def _nothing(_: Any) -> None:
    """In the place of a listener, to see what fits around it."""


@dataclass(slots=True)
class Run:
    """One life of an app, on the running loop. ``instance`` is what lasts of a member's name, for broadcasting.

    ``thread`` is that of the loop; without one it is the program's own.
    """

    app: App
    nameservers: str | Sequence[str] = ()
    instance: str = ""
    thread: LoopThread | None = None
    state: AppRunState = AppRunState.STARTING
    consumers: list[PushConsumer] = field(default_factory=list)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _opened: dict[str, Any] = field(default_factory=dict)
    _marks_of: dict[str, dict[int, Marks]] = field(default_factory=dict)  # by group

    # --- what is open ---

    @property
    def client(self) -> Client:
        return self._part("client", Client)

    @property
    def producer(self) -> Producer:
        return self._part("producer", Producer)

    @property
    def sync_producer(self) -> SyncProducer:
        return self._part("sync_producer", SyncProducer)

    @property
    def transactions(self) -> TransactionProducer:
        self._require_checks()
        return self._part("transactions", TransactionProducer)

    @property
    def sync_transactions(self) -> SyncTransactionProducer:
        self._require_checks()
        return self._part("sync_transactions", SyncTransactionProducer)

    def _part(self, name: str, kind: type[T]) -> T:
        part = self._opened.get(name)
        if part is None:
            raise ClientClosedError("the app does not run: use this in its listeners, or between start and stop")
        assert isinstance(part, kind)
        return part

    def _require_checks(self) -> None:
        if not self.app.checks:
            text = "transactions need someone to ask about them after a crash"
            raise ConfigError(f"{text}: write @app.transaction_check(topic) for each topic that they send to")

    # --- life ---

    async def open(self) -> None:
        """Start the app: providers, clients, consumers. Raises ConfigError, what the app's own functions raise, and
        what clients raise when they open.
        """
        try:
            await self._open(build(self.app))
        except BaseException:  # what was opened is closed before anybody hears of it; raised again
            self.state = AppRunState.STOPPED
            await self._stack.aclose()
            raise
        self.state = AppRunState.RUNNING
        logger.info("app runs: name=%s groups=%d", self.app.name or DEFAULT_NAME, len(self.consumers))

    async def _open(self, built: Built) -> None:
        stack, app = self._stack, self.app
        if self.thread is None:
            self.thread = running = RunningLoop()
            stack.callback(running.end)
        stack.callback(self._opened.clear)
        client = await stack.enter_async_context(self._new_client(stable=False))
        producer = Producer(client=client, group=app.name or DEFAULT_NAME, settings=app.producer_settings)
        await stack.enter_async_context(producer)
        sync_producer = SyncProducer.over(producer, self.thread)
        stack.callback(sync_producer.let_go)
        self._opened.update(client=client, producer=producer, sync_producer=sync_producer)
        provided: dict[str, Any] = {}
        values = Values(app, producer, sync_producer, provided, built.signatures, client.schemas.known)
        for provider, signature in built.providers:
            if provider.scope is ProviderScope.APP:
                provided[provider.name] = await make_for_app(provider, arguments_of(signature, values), stack)
        if app.checks:
            await self._open_transactions(client, built, values)
        for signature in built.on_start:
            await _call_hook(signature, values)
        for signature in built.on_stop:
            stack.push_async_callback(_call_hook, signature, values)
        await self._open_consumers(client, built, values)

    def _new_client(self, *, stable: bool) -> Client:
        """Members of clustering groups have a name of their own each time, unless the app was given one."""
        options = dict(self.app.options)
        given = client_settings_of(self.nameservers or self.app.nameservers, options.pop("client_settings", None))
        client = client_for("", None, {**options, "client_settings": given})
        settings: ClientSettings = client.settings
        name = settings.instance_name
        if self.instance and (name or stable):
            name = f"{name or self.app.name or DEFAULT_NAME}-{self.instance}"
        return Client(replace(settings, instance_name=name)) if name != settings.instance_name else client

    async def _open_transactions(self, client: Client, built: Built, values: Values) -> None:
        calls = {topic: build_call(each, values) for topic, each in zip(self.app.checks, built.checks, strict=True)}
        kinds = {topic: each.is_coroutine for topic, each in zip(self.app.checks, built.checks, strict=True)}

        async def check(message: ReceivedMessage) -> TransactionOutcome | None:
            call = calls.get(message.topic)
            if call is None:
                return None
            found = await call(message) if kinds[message.topic] else await asyncio.to_thread(call, message)
            return found  # type: ignore[no-any-return]

        group = f"{self.app.name or DEFAULT_NAME}-transactions"
        made = TransactionProducer(client=client, group=group, topics=list(calls), check=check)
        await self._stack.enter_async_context(made)
        assert self.thread is not None
        face = SyncTransactionProducer.over(made, self.thread)
        self._stack.callback(face.let_go)
        self._opened.update(transactions=made, sync_transactions=face)

    async def _open_consumers(self, client: Client, built: Built, values: Values) -> None:
        marks: dict[Any, Marks] = {}
        for topic in {topic for listener in self.app.listeners for topic in listener.topics}:
            await client.schemas.find(topic)
        calls = {
            id(listener): await self._around(listener, _call_of(listener, signature, values), values, marks)
            for listener, signature in zip(self.app.listeners, built.listeners, strict=True)
        }
        stable: Client | None = None
        for plan in built.plans:
            if plan.settings.broadcast and stable is None:
                stable = await self._stack.enter_async_context(self._new_client(stable=True))
            call = plan.routed([calls[id(listener)] for listener in plan.listeners])
            settings = replace(plan.settings, close_timeout_ms=self.app.drain_timeout_ms)
            listener: dict[str, Any] = {"batch_listener" if plan.is_batch else "listener": call}
            consumer = PushConsumer(
                group=plan.group,
                settings=settings,
                client=stable if plan.settings.broadcast else client,
                **plan.consumer_options,
                **listener,
            )
            for topic, expression, is_sql in plan.subscriptions():
                consumer.subscribe(topic, expression, sql=is_sql)
            self.consumers.append(consumer)
        self._stack.push_async_callback(self._drain)
        for consumer in self.consumers:
            await consumer.open()

    async def _around(self, listener: AppListener, call: Call, values: Values, marks: dict[Any, Marks]) -> Call:
        """Replies, marks and middleware, from the inside out."""
        if listener.replies:
            call = replying(call, values, is_coroutine=listener.is_coroutine)
        if (database := listener.options.get("once")) is not None:
            key = listener.options.get("once_key") or message_key
            found = await self._marks(database, listener.group, marks)
            self._marks_of.setdefault(listener.group, {})[id(found)] = found
            call = once_for_batch(call, found, key=key) if listener.is_batch else once(call, found, key=key)
        for middleware in reversed(self.app.middlewares):
            call = middleware.around(call, listener.group, listener.name, is_coroutine=listener.is_coroutine)
        return call

    async def _marks(self, database: Any, group: str, marks: dict[Any, Marks]) -> Marks:
        if isinstance(database, Marks):
            return database
        where = (str(database) if isinstance(database, str) else id(database), group)
        if where not in marks:
            marks[where] = await asyncio.to_thread(lambda: Marks(place_of(database), scope=group))
            self._stack.push_async_callback(asyncio.to_thread, marks[where].close)
        return marks[where]

    async def _drain(self) -> None:
        """All at the same time, so that the time is one for all."""
        for outcome in await asyncio.gather(*(each.close() for each in self.consumers), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def until(self, stop: asyncio.Event) -> None:
        """Waits for ``stop``. Raises NoPermissionError when access control lets a consumer read nothing."""
        stopped = asyncio.ensure_future(stop.wait())
        ends = {asyncio.ensure_future(each.run_open(None, None)) for each in self.consumers}
        try:
            while not stopped.done():
                done, _ = await asyncio.wait({stopped, *ends}, return_when=asyncio.FIRST_COMPLETED)
                ends -= done
                for each in done:
                    await each
        finally:
            for each in (stopped, *ends):
                each.cancel()

    async def close(self) -> None:
        """Takes no more, waits for listeners, commits, then closes the rest; does nothing the second time."""
        if self.state in (AppRunState.DRAINING, AppRunState.STOPPED):
            return
        self.state = AppRunState.DRAINING
        try:
            await self._stack.aclose()
        finally:
            self.state = AppRunState.STOPPED
            logger.info("app stopped: name=%s", self.app.name or DEFAULT_NAME)

    @property
    def is_ready(self) -> bool:
        """Messages can come: it runs, and a server is connected; without listeners nothing needs to be."""
        if self.state is not AppRunState.RUNNING or not self.consumers:
            return self.state is AppRunState.RUNNING
        links = self.client.nameservers.links
        return any(link.ready is not None for link in links) or bool(self.client.brokers.ready_links())

    def report(self) -> dict[str, Any]:
        """How it goes, for health endpoints."""
        groups = {
            each.group: {
                "queues": len(each.assignment),
                "consumed": each.counts.ok,
                "failed": each.counts.failed,
                "skipped": sum(marks.skipped for marks in self._marks_of.get(each.group, {}).values()),
            }
            for each in self.consumers
        }
        name = self.app.name or DEFAULT_NAME
        return {"app": name, "state": self.state.value, "ready": self.is_ready, "groups": groups}


def replying(call: Call, values: Values, *, is_coroutine: bool) -> Call:
    """What the listener returns goes to who asked. A reply that cannot be sent is logged: nobody waits that long."""
    if is_coroutine:
        producer: Producer = values.producer

        async def reply_soon(message: ReceivedMessage) -> None:
            _require_request(message)
            body = encode(await call(message)).body
            try:
                await producer.reply(message, body)
            except MQError as error:
                _not_replied(message, error)

        return reply_soon
    sync_producer: SyncProducer = values.sync_producer

    def reply(message: ReceivedMessage) -> None:
        _require_request(message)
        body = encode(call(message)).body
        try:
            sync_producer.reply(message, body)
        except MQError as error:
            _not_replied(message, error)

    return reply


def _require_request(message: ReceivedMessage) -> None:
    if not message.get(names.REPLY_TO_CLIENT):
        raise DeadLetterError(
            f"a message of {message.topic} asks for no reply: send it with request(), not with send()"
        )


def _not_replied(message: ReceivedMessage, error: MQError) -> None:
    logger.warning("reply not sent, the request will time out: id=%s error=%s", message.message_id, error)


async def _call_hook(signature: Signature, values: Values) -> None:
    hook = build_hook(signature, values)
    if is_coroutine_function(signature.function):
        await hook()
    else:
        await asyncio.to_thread(hook)
