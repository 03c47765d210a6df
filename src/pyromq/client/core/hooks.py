"""Hooks: code of the application that looks on while messages are sent and consumed, for tracing, metrics, policies.

A hook overrides what it needs. ``sending`` and ``listening`` are context managers around the work itself: what they set
(a contextvar, a current span) holds inside of it. The other methods run before and after. A hook that is handed to
one client sees that client; one that is installed sees every producer and consumer of the process that is made
afterwards. Clients without a hook pay nothing for any of this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import zip_longest
from typing import TypeVar

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.clock import Clock
from pyromq.errors import Attempt, ConfigError, MessageRefusedError, MQError
from pyromq.model.message import Message, SendReceipt
from pyromq.wire.trace import ConsumeCode

logger = logging.getLogger(__name__)

HookT = TypeVar("HookT", bound="SendHook | ConsumeHook")


class Sending:
    """One send as a hook sees it: a message, or all messages of a batch.

    ``receipts`` are those of messages that a broker has, in order, and ``failed`` the attempts that came to nothing;
    both are filled while the send goes on. ``is_prepared``: the message is that of a transaction. ``is_oneway``: no
    receipt will come.
    """

    __slots__ = ("_messages", "failed", "group", "is_oneway", "is_prepared", "receipts")

    def __init__(
        self, messages: Sequence[Message], group: str = "", *, is_prepared: bool = False, is_oneway: bool = False
    ) -> None:
        self._messages = list(messages)
        self.group = group
        self.is_prepared = is_prepared
        self.is_oneway = is_oneway
        self.receipts: list[SendReceipt] = []
        self.failed: list[Attempt] = []

    @property
    def messages(self) -> Sequence[Message]:
        """Messages that are sent."""
        return self._messages

    def replace(self, number: int, message: Message) -> None:
        """Sends this message instead; one of the same topic, before the send begins. Raises MessageRefusedError."""
        if message.topic != self._messages[number].topic:
            raise MessageRefusedError(f"a hook cannot turn a message to {self._messages[number].topic} elsewhere")
        self._messages[number] = message


class Delivery:
    """One call of a listener as a hook sees it. ``code`` is None until the listener is over."""

    __slots__ = ("code", "group", "messages")

    def __init__(self, messages: Sequence[ReceivedMessage], group: str) -> None:
        self.messages = messages
        self.group = group
        self.code: ConsumeCode | None = None


class SendHook:
    """Subclass it and hand it to a producer. Called on the producer's loop, so it must not block.

    The context (contextvars) is that of the caller, also when the caller is a thread.
    """

    def before_send(self, message: Message) -> None:
        """For each message. May raise to forbid the send; the caller gets that error."""

    def after_send(self, message: Message, receipt: SendReceipt | None, error: MQError | None, elapsed_ms: int) -> None:
        """Either a receipt or an error; a send that was cancelled has one too. What it raises is logged, no more."""

    def sending(self, send: Sending) -> AbstractContextManager[object] | None:
        """Around a send with all its attempts, also one without a response; ``send.replace`` changes what is sent.

        What the context manager raises of its own is logged, and it cannot swallow an error.
        """
        return None


class ConsumeHook:
    """Looks on while listeners are called, or messages polled. Called on the consumer's loop: it must not block."""

    def before_consume(self, messages: Sequence[ReceivedMessage]) -> object:
        """A listener gets these; what is returned comes back in ``after_consume``."""
        return None

    def after_consume(self, messages: Sequence[ReceivedMessage], began: object, code: int, elapsed_ms: int) -> None:
        """It ended, in one of the ways of ``ConsumeCode``."""

    def listening(self, delivery: Delivery) -> AbstractContextManager[object] | None:
        """Around the call of a listener, where it runs: on its thread, or in its task.

        It sees what the listener raises; ``delivery.code`` says at the end how it went. What the context manager
        raises of its own is logged, and it cannot swallow an error.
        """
        return None

    def mask_error(self, text: str) -> str:
        """What may be stored of the text of an error: it travels with the failed message, and others read it there.

        The class of the error and a hash of its stack are kept in any case. If it raises, or returns no text, the text
        is left out.
        """
        return text

    def after_poll(self, messages: Sequence[ReceivedMessage], group: str, elapsed_ms: int) -> None:
        """A pull consumer hands these out, after waiting so long for them."""


# --- for all clients of the process ----------------------------------------------------------------------------------

_installed: tuple[SendHook | ConsumeHook, ...] = ()


def install(hook: SendHook | ConsumeHook) -> None:
    """Every producer and consumer that is made from now on has this hook; a second time changes nothing.

    Raises ConfigError for what is no hook.
    """
    global _installed
    if not isinstance(hook, SendHook | ConsumeHook):
        raise ConfigError(f"a hook is a SendHook or a ConsumeHook, not {type(hook).__name__}")
    if not any(each is hook for each in _installed):
        _installed = (*_installed, hook)


def uninstall(hook: SendHook | ConsumeHook) -> None:
    """Clients that are made from now on do not have it; those that there are keep it."""
    global _installed
    _installed = tuple(each for each in _installed if each is not hook)


def with_installed(kind: type[HookT], given: Iterable[HookT]) -> tuple[HookT, ...]:
    """The hooks of a client that was given some."""
    given = tuple(given)
    more = (hook for hook in _installed if isinstance(hook, kind) and not any(hook is each for each in given))
    return (*given, *more)


# --- context managers of hooks ---------------------------------------------------------------------------------------

Scope = Callable[[], AbstractContextManager[object] | None]


@contextmanager
def within(scopes: Iterable[Scope]) -> Iterator[None]:
    """A block inside of all of them. It goes its way whatever they do: their mistakes are logged."""
    entered = [manager for scope in scopes if (manager := _entered(scope)) is not None]
    try:
        yield
    except BaseException as error:  # scopes see it; raised again
        _leave(entered, error)
        raise
    _leave(entered, None)


def _entered(scope: Scope) -> AbstractContextManager[object] | None:
    try:
        manager = scope()
        if manager is not None:
            manager.__enter__()
    except Exception:  # a hook's mistake must not cost a message
        logger.exception("hook failed, going on without it")
        return None
    return manager


def _leave(entered: Sequence[AbstractContextManager[object]], error: BaseException | None) -> None:
    for manager in reversed(entered):
        try:
            if error is None:
                manager.__exit__(None, None, None)
            else:
                manager.__exit__(type(error), error, error.__traceback__)
        except BaseException as own:
            if own is error:  # passed on, as context managers may
                continue
            if not isinstance(own, Exception):
                raise
            logger.exception("hook failed at the end")


# --- those of one producer -------------------------------------------------------------------------------------------


class SendHooks:
    """Those of one producer, called in turn."""

    def __init__(self, hooks: Sequence[SendHook], clock: Clock, group: str = "") -> None:
        self._hooks = tuple(hooks)
        self._scopes = tuple(hook.sending for hook in hooks if type(hook).sending is not SendHook.sending)
        self._clock = clock
        self._group = group

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def around(self, messages: Sequence[Message], *, is_prepared: bool = False) -> AbstractContextManager[Sending]:
        """A block that sends what is in ``messages`` of the result, and adds receipts to it, in order."""
        send = Sending(messages, self._group, is_prepared=is_prepared)
        return self._around(send) if self._hooks else nullcontext(send)

    @contextmanager
    def _around(self, send: Sending) -> Iterator[Sending]:
        for hook in self._hooks:
            for message in send.messages:
                hook.before_send(message)
        started_ms = self._clock.monotonic_ms()
        try:
            with self._within(send) if self._scopes else nullcontext():
                yield send
        except BaseException as error:  # hooks hear the end of all that they heard the beginning of; raised again
            self._ended(send, _reported(error), started_ms)
            raise
        self._ended(send, None, started_ms)

    def around_oneway(self, message: Message) -> AbstractContextManager[Sending]:
        """A block that sends without a response: it has a beginning, but no outcome that could be reported."""
        send = Sending([message], self._group, is_oneway=True)
        return self._within(send) if self._scopes else nullcontext(send)

    @contextmanager
    def _within(self, send: Sending) -> Iterator[Sending]:
        with within(partial(scope, send) for scope in self._scopes):
            yield send

    def _ended(self, send: Sending, error: MQError | None, started_ms: int) -> None:
        elapsed_ms = self._clock.monotonic_ms() - started_ms
        for hook in self._hooks:
            for message, receipt in zip_longest(send.messages, send.receipts):
                try:
                    hook.after_send(message, receipt, None if receipt else error, elapsed_ms)
                except Exception:  # a hook's mistake must not turn a stored message into a failed one
                    logger.exception("hook failed after a send: topic=%s", message.topic)


def _reported(error: BaseException) -> MQError:
    """Without an error a send that was cancelled would look like one that succeeded."""
    if isinstance(error, MQError):
        return error
    failure = MQError(f"the send was given up, so it is not known whether it is stored: {error!r}")
    failure.__cause__ = error
    return failure
