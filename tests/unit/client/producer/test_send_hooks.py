"""Hooks around a send: a hook that heard its beginning hears its end, and never takes a failure for a success."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import pytest

from pyromq.client.core.hooks import ConsumeHook, SendHook, SendHooks, Sending, install, uninstall, with_installed
from pyromq.errors import ConfigError, ConnectFailedError, MQError
from pyromq.model.message import Message, SendReceipt, SendStatus
from pyromq.model.queue import QueueId
from pyromq.testing import ManualClock

MESSAGES = [Message("orders", b"1"), Message("orders", b"2")]
RECEIPT = SendReceipt(SendStatus.SEND_OK, "id", "offset id", QueueId("orders", "a", 0), 7)


class Seen(SendHook):
    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.begun: list[bytes] = []
        self.ended: list[tuple[bytes, SendReceipt | None, MQError | None, int]] = []

    def before_send(self, message: Message) -> None:
        self.begun.append(message.body)

    def after_send(self, message: Message, receipt: SendReceipt | None, error: MQError | None, elapsed_ms: int) -> None:
        self.ended.append((message.body, receipt, error, elapsed_ms))
        if self.fails:
            raise RuntimeError("a mistake of the hook")


def test_messages_of_a_batch_without_receipt_have_the_error() -> None:
    clock, seen, error = ManualClock(), Seen(), ConnectFailedError("refused")
    with pytest.raises(ConnectFailedError), SendHooks([seen], clock).around(MESSAGES) as send:
        assert seen.begun == [b"1", b"2"]
        send.receipts.append(RECEIPT)
        clock.advance_ms(30)
        raise error
    assert seen.ended == [(b"1", RECEIPT, None, 30), (b"2", None, error, 30)]


@pytest.mark.parametrize("cause", [asyncio.CancelledError(), KeyError("a mistake of the selector")])
def test_a_send_that_was_given_up_is_not_told_as_a_success(cause: BaseException) -> None:
    seen = Seen()
    with pytest.raises(type(cause)), SendHooks([seen], ManualClock()).around(MESSAGES[:1]):
        raise cause
    ((_, receipt, error, _),) = seen.ended
    assert receipt is None
    assert isinstance(error, MQError)
    assert error.__cause__ is cause


def test_a_hook_that_fails_afterwards_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    first, second = Seen(fails=True), Seen()
    with SendHooks([first, second], ManualClock()).around(MESSAGES[:1]) as send:
        send.receipts.append(RECEIPT)
    assert [ended[1] for ended in (*first.ended, *second.ended)] == [RECEIPT, RECEIPT]
    assert "hook failed after a send" in caplog.text


def test_a_hook_may_forbid_a_send() -> None:
    class Never(SendHook):
        def before_send(self, message: Message) -> None:
            raise ConnectFailedError("not this one")

    with pytest.raises(ConnectFailedError), SendHooks([Never()], ManualClock()).around(MESSAGES):
        pytest.fail("the block was entered")


# --- context managers around a send ---


class Around(SendHook):
    def __init__(self, log: list[str], name: str = "scope") -> None:
        self.log, self.name = log, name

    @contextmanager
    def sending(self, send: Sending) -> Iterator[None]:
        self.log.append(f"{self.name} begins")
        try:
            yield
        except BaseException as error:
            self.log.append(f"{self.name} saw {type(error).__name__}")
            raise
        finally:
            self.log.append(f"{self.name} ends with {len(send.receipts)}")


def test_a_scope_is_around_the_send_and_sees_its_receipts_and_its_error() -> None:
    log: list[str] = []
    with SendHooks([Around(log)], ManualClock()).around(MESSAGES[:1]) as send:
        send.receipts.append(RECEIPT)
    with pytest.raises(asyncio.CancelledError), SendHooks([Around(log)], ManualClock()).around(MESSAGES[:1]):
        raise asyncio.CancelledError
    assert log == [
        *("scope begins", "scope ends with 1"),
        *("scope begins", "scope saw CancelledError", "scope ends with 0"),
    ]


def test_scopes_are_left_in_the_opposite_order() -> None:
    log: list[str] = []
    with SendHooks([Around(log, "a"), SendHook(), Around(log, "b")], ManualClock()).around(MESSAGES[:1]):
        pass
    assert log == ["a begins", "b begins", "b ends with 0", "a ends with 0"]


def test_a_scope_may_replace_a_message_by_one_of_the_same_topic(caplog: pytest.LogCaptureFixture) -> None:
    class Marks(SendHook):
        @contextmanager
        def sending(self, send: Sending) -> Iterator[None]:
            for number, message in enumerate(send.messages):
                send.replace(number, Message(message.topic, message.body, properties={"seen": str(number)}))
            yield

    class Redirects(SendHook):
        @contextmanager
        def sending(self, send: Sending) -> Iterator[None]:
            send.replace(0, Message("elsewhere", b"1"))
            yield

    seen = Seen()
    with SendHooks([Marks(), Redirects(), seen], ManualClock()).around(MESSAGES) as send:
        assert [(each.topic, each.properties) for each in send.messages] == [
            ("orders", {"seen": "0"}),
            ("orders", {"seen": "1"}),
        ]
    assert "cannot turn a message to orders elsewhere" in caplog.text


@pytest.mark.parametrize("when", ["made", "entered", "left"])
def test_a_scope_that_fails_costs_no_message(when: str, caplog: pytest.LogCaptureFixture) -> None:
    class Fails(SendHook):
        def sending(self, send: Sending) -> AbstractContextManager[None]:
            if when == "made":
                raise ValueError(when)
            return self._scope()

        @contextmanager
        def _scope(self) -> Iterator[None]:
            if when == "entered":
                raise ValueError(when)
            yield
            raise ValueError(when)

    log: list[str] = []
    with SendHooks([Around(log), Fails()], ManualClock()).around(MESSAGES[:1]) as send:
        send.receipts.append(RECEIPT)
    assert log[-1] == "scope ends with 1"
    assert f"ValueError: {when}" in caplog.text


def test_a_scope_cannot_swallow_an_error() -> None:
    class Swallows(SendHook):
        def sending(self, send: Sending) -> AbstractContextManager[object]:
            return suppress(Exception)

    with pytest.raises(ConnectFailedError), SendHooks([Swallows()], ManualClock()).around(MESSAGES[:1]):
        raise ConnectFailedError("refused")


def test_a_message_without_a_response_has_a_scope_and_nothing_else() -> None:
    log: list[str] = []
    seen = Seen()
    with SendHooks([seen, Around(log)], ManualClock()).around_oneway(MESSAGES[0]) as send:
        assert send.is_oneway
    assert log == ["scope begins", "scope ends with 0"]
    assert not seen.begun and not seen.ended


# --- hooks of the process ---


class Both(SendHook, ConsumeHook):
    pass


def test_an_installed_hook_is_that_of_every_client_made_afterwards() -> None:
    both, sends = Both(), Seen()
    install(both)
    try:
        install(both)
        install(sends)
        assert with_installed(SendHook, []) == (both, sends)
        assert with_installed(SendHook, [sends]) == (sends, both)
        assert with_installed(ConsumeHook, []) == (both,)
    finally:
        uninstall(both)
        uninstall(sends)
    uninstall(both)
    assert with_installed(SendHook, []) == ()


def test_what_is_no_hook_is_not_installed() -> None:
    with pytest.raises(ConfigError, match="a hook is a SendHook or a ConsumeHook, not str"):
        install("hook")  # type: ignore[arg-type]
