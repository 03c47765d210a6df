"""Transaction producers against scripted brokers: what goes over the wire, and when."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import pyromq
from pyromq import aio
from pyromq.errors import BrokerError, ClientClosedError, ConfigError, MQError, NotPreparedError
from pyromq.model.message import Message
from pyromq.net import Connection
from pyromq.settings import ClientSettings, TransactionProducerSettings
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.headers.callback import CheckTransactionHeader
from pyromq.wire.properties import decode_properties
from pyromq.wire.received import Received
from pyromq.wire.signature import verify
from tests.integration.scripted_broker import ScriptedBroker, ScriptedCluster, scripted
from tests.integration.waiting import until, until_on_thread
from tests.unit.received import received

pytestmark = pytest.mark.integration

COMMIT, ROLLBACK, UNKNOWN = (
    aio.TransactionOutcome.COMMIT,
    aio.TransactionOutcome.ROLLBACK,
    aio.TransactionOutcome.UNKNOWN,
)


class TransactionBroker(ScriptedBroker):
    """Remembers outcomes and answers them with ``end_code``; asks when told to."""

    def __init__(self, name: str = "broker-a", *, send_code: int = 0, end_code: int = 0) -> None:
        super().__init__(name, lambda connection, request: send_code)
        self.ends: list[Received[Any]] = []
        self.greeted: list[Connection] = []
        self.end_code = end_code

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        for request in requests:
            if request.code == Code.HEART_BEAT:
                self.greeted.append(connection)
            if request.code == Code.END_TRANSACTION:
                self.ends.append(request)
                if not request.is_oneway and request.header.commit_or_rollback:  # RocketMQ does not answer to UNKNOWN
                    connection.send(encode_response(self.end_code, request.correlation_id, remark="scripted"))
            else:
                super().on_requests(connection, [request])

    @property
    def outcomes(self) -> list[int]:
        return [end.header.commit_or_rollback for end in self.ends]

    def ask(
        self, transaction_id: str, *, group: str = "g", topic: str = "T", offset: int = 20, position: int = 0x3000
    ) -> None:
        message = received(b"half", topic=topic, unique_id=transaction_id, PGROUP=group)
        header = CheckTransactionHeader(
            tran_state_table_offset=offset, commit_log_offset=position, transaction_id=transaction_id
        )
        self.greeted[-1].request_oneway(Code.CHECK_TRANSACTION_STATE, header, message.record)


@asynccontextmanager
async def cluster(broker: TransactionBroker, **named: Any) -> AsyncIterator[ScriptedCluster]:
    async with scripted(broker, **named) as running:
        yield running


def no_check(message: aio.ReceivedMessage) -> None:
    raise AssertionError("nobody should have asked")


# --- sending ---


async def test_a_prepared_message_is_marked_and_its_outcome_goes_where_the_response_says() -> None:
    broker = TransactionBroker()
    async with (
        cluster(broker) as servers,
        aio.TransactionProducer(servers.nameserver, group="g", topics="T", check=no_check) as producer,
    ):
        seen: list[aio.Transaction] = []

        async def execute(transaction: aio.Transaction) -> aio.TransactionOutcome:
            seen.append(transaction)
            assert broker.sends and not broker.ends
            return COMMIT

        receipt = await producer.send(Message("T", b"x" * 8_000, keys="k"), execute, "argument", check_after_ms=1_500)
        await until(lambda: bool(broker.ends))
        sent, end = broker.sends[0].header, broker.ends[0]
        properties = decode_properties(sent.properties.encode())
        assert sent.sys_flag & 0xC == 4
        assert sent.sys_flag & 1  # and compressed all the same
        assert (properties["TRAN_MSG"], properties["PGROUP"]) == ("true", "g")
        assert (properties["CHECK_IMMUNITY_TIME_IN_SECONDS"], properties["KEYS"]) == ("2", "k")
        assert end.is_oneway
        assert (end.header.tran_state_table_offset, end.header.commit_log_offset) == (7, 0x1000)
        assert (end.header.producer_group, end.header.topic, end.header.commit_or_rollback) == ("g", "T", 8)
        assert end.header.msg_id == end.header.transaction_id == receipt.transaction_id == properties["UNIQ_KEY"]
        assert not end.header.from_transaction_check
        assert (receipt.outcome, receipt.error, receipt.unreported, receipt.confirmed) == (COMMIT, None, None, False)
        assert (seen[0].id, seen[0].argument) == (receipt.transaction_id, "argument")


async def test_what_execute_returns_or_raises_is_the_outcome(caplog: pytest.LogCaptureFixture) -> None:
    def fail(transaction: aio.Transaction) -> None:
        raise ValueError("no")

    broker = TransactionBroker()
    async with (
        cluster(broker) as servers,
        aio.TransactionProducer(servers.nameserver, group="g", topics=["T"], check=no_check) as producer,
    ):
        outcomes = []
        for execute in (lambda t: ROLLBACK, lambda t: None, fail, lambda t: 1, lambda t: t.commit()):
            receipt = await producer.send(Message("T", b"x"), execute)  # type: ignore[arg-type]
            outcomes.append((receipt.outcome, type(receipt.error)))
        expected = [(ROLLBACK, None), (UNKNOWN, None), (UNKNOWN, ValueError), (UNKNOWN, TypeError), (COMMIT, None)]
        assert outcomes == [(outcome, kind or type(None)) for outcome, kind in expected]
        await until(lambda: len(broker.ends) == 5)
        assert broker.outcomes == [12, 0, 0, 0, 8]
    assert "execute failed, left to the check" in caplog.text


async def test_a_block_commits_rolls_back_or_leaves_it_open() -> None:
    broker = TransactionBroker()
    async with (
        cluster(broker) as servers,
        aio.TransactionProducer(servers.nameserver, group="g", topics="T", check=no_check) as producer,
    ):
        async with producer.transaction(Message("T", b"x")) as first:
            assert not broker.ends
        with pytest.raises(ValueError, match="mine"):
            async with producer.transaction(Message("T", b"x")):
                raise ValueError("mine")
        async with producer.transaction(Message("T", b"x")) as third:
            third.unknown()
        with pytest.raises(asyncio.CancelledError):
            async with producer.transaction(Message("T", b"x")) as fourth:
                raise asyncio.CancelledError
        await until(lambda: len(broker.ends) == 4)
        assert broker.outcomes == [8, 12, 0, 0]
        assert first.receipt is not None and first.receipt.outcome is COMMIT
        assert fourth.receipt is None


async def test_a_prepared_message_that_is_less_safe_than_wanted_is_rolled_back_and_nothing_executed() -> None:
    broker, settings = TransactionBroker(send_code=10), TransactionProducerSettings(retry_unless_ok=True, retries=0)
    async with (
        cluster(broker) as servers,
        aio.TransactionProducer(
            servers.nameserver, group="g", topics="T", check=no_check, settings=settings
        ) as producer,
    ):
        with pytest.raises(NotPreparedError, match="flush disk timeout"):
            await producer.send(Message("T", b"x"), lambda transaction: pytest.fail("executed"))
        await until(lambda: len(broker.ends) == 1)
        assert broker.outcomes == [12]


async def test_confirm_waits_for_the_broker_and_says_what_it_said() -> None:
    broker = TransactionBroker()
    async with (
        cluster(broker) as servers,
        aio.TransactionProducer(servers.nameserver, group="g", topics="T", check=no_check, confirm=True) as producer,
    ):
        receipt = await producer.send(Message("T", b"x"), lambda transaction: COMMIT)
        assert receipt.confirmed and not broker.ends[0].is_oneway
        unknown = await producer.send(Message("T", b"x"), lambda transaction: None)
        assert (unknown.confirmed, unknown.unreported) == (False, None)  # nobody waited for an answer
        broker.end_code = 604
        late = await producer.send(Message("T", b"x"), lambda transaction: COMMIT)
        assert (late.outcome, late.confirmed) == (COMMIT, False)
        assert isinstance(late.unreported, BrokerError) and late.unreported.code == 604


@pytest.mark.parametrize("code", [ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SLAVE_NOT_AVAILABLE])
async def test_a_confirmed_outcome_is_told_again_while_another_broker_becomes_master(code: ResponseCode) -> None:
    broker = TransactionBroker()
    broker.end_code = code
    async with (
        cluster(broker) as servers,
        aio.TransactionProducer(servers.nameserver, group="g", topics="T", check=no_check, confirm=True) as producer,
    ):
        sending = asyncio.ensure_future(producer.send(Message("T", b"x"), lambda transaction: COMMIT))
        await until(lambda: len(broker.ends) >= 2, "it is told again")
        broker.end_code = 0
        receipt = await sending
    assert receipt.confirmed and receipt.unreported is None


async def test_an_outcome_that_cannot_be_told_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    broker = TransactionBroker()
    async with AsyncServers(broker) as servers, servers.producer() as producer:
        async with producer.transaction(Message("T", b"x")) as transaction:
            await servers.stop()
        assert transaction.receipt is not None
        assert transaction.receipt.outcome is COMMIT
        assert isinstance(transaction.receipt.unreported, MQError)
    assert "the broker will ask" in caplog.text


class AsyncServers:
    """A cluster that can go away before its block ends."""

    def __init__(self, broker: TransactionBroker) -> None:
        self._context = cluster(broker)
        self._is_running = False

    async def __aenter__(self) -> AsyncServers:
        self._servers, self._is_running = await self._context.__aenter__(), True
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        if self._is_running:
            self._is_running = False
            await self._context.__aexit__(None, None, None)

    def producer(self) -> aio.TransactionProducer:
        names = self._servers.nameserver
        return aio.TransactionProducer(names, group="g", topics="T", check=no_check, timeout_ms=500)


# --- check-backs ---


async def test_a_producer_that_has_sent_nothing_is_known_and_answers() -> None:
    broker = TransactionBroker()
    asked: list[tuple[str, bytes, str]] = []

    async def check(message: aio.ReceivedMessage) -> aio.TransactionOutcome:
        asked.append((message.transaction_id, message.body, message.topic))
        return COMMIT

    async with (
        cluster(broker) as servers,
        aio.TransactionProducer(servers.nameserver, group="g", topics="T", check=check),
    ):
        assert broker.greeted and not broker.sends
        broker.ask("TX-1", offset=21, position=0x4000)
        await until(lambda: bool(broker.ends))
        end = broker.ends[0]
        assert asked == [("TX-1", b"half", "T")]
        assert end.is_oneway and end.header.from_transaction_check
        assert (end.header.commit_or_rollback, end.header.producer_group) == (8, "g")
        assert (end.header.tran_state_table_offset, end.header.commit_log_offset) == (21, 0x4000)
        assert (end.header.msg_id, end.header.transaction_id) == ("TX-1", "TX-1")


async def test_a_check_of_a_transaction_that_is_still_executing_moves_its_outcome_to_the_newer_copy() -> None:
    broker = TransactionBroker()
    async with (
        cluster(broker) as servers,
        aio.TransactionProducer(servers.nameserver, group="g", topics="T", check=no_check) as producer,
    ):
        async with producer.transaction(Message("T", b"x")) as transaction:
            broker.ask(transaction.id, offset=22, position=0x5000)
            await until(lambda: transaction.place.offset == 22)
        await until(lambda: bool(broker.ends))
        header = broker.ends[0].header
        assert (header.tran_state_table_offset, header.commit_log_offset) == (22, 0x5000)
        assert header.from_transaction_check
        assert broker.outcomes == [8]


async def test_a_plain_producer_of_the_same_group_and_client_does_not_swallow_checks() -> None:
    broker = TransactionBroker()
    async with cluster(broker) as servers, aio.Client(ClientSettings(nameservers=servers.nameserver)) as client:
        async with (
            aio.Producer(client=client, group="g"),
            aio.TransactionProducer(client=client, group="g", topics="T", check=lambda message: ROLLBACK),
        ):
            broker.ask("TX-1")
            await until(lambda: broker.outcomes == [12])


async def test_a_producer_that_starts_before_its_topic_registers_when_the_topic_is_there() -> None:
    broker = TransactionBroker()
    async with cluster(broker, topics=("T",)) as servers:
        route = servers.names.routes.pop("T")
        quick = ClientSettings(nameservers=servers.nameserver, route_poll_ms=20)
        async with aio.TransactionProducer(group="g", topics="T", check=lambda message: COMMIT, client_settings=quick):
            assert not broker.greeted
            servers.names.routes["T"] = route
            await until(lambda: bool(broker.greeted))
            broker.ask("TX-1")
            await until(lambda: broker.outcomes == [8])


async def test_outcomes_of_transactions_and_of_checks_are_signed_with_the_credentials() -> None:
    broker = TransactionBroker()
    async with cluster(broker) as servers:
        signing = ClientSettings(nameservers=servers.nameserver, credentials=aio.Credentials("key", "secret"))
        async with aio.TransactionProducer(
            group="g", topics="T", check=lambda message: COMMIT, client_settings=signing
        ) as producer:
            await producer.send(Message("T", b"x"), lambda transaction: ROLLBACK)
            broker.ask("TX-1")
            await until(lambda: broker.outcomes == [12, 8])
    assert all(verify(end.ext(), end.body, "secret") for end in broker.ends)


async def test_names_on_the_wire_have_the_namespace_and_those_of_the_application_do_not() -> None:
    broker = TransactionBroker()
    topics: list[str] = []

    def check(message: aio.ReceivedMessage) -> aio.TransactionOutcome:
        topics.append(message.topic)
        return COMMIT

    async with cluster(broker, topics=("prod%T",)) as servers:
        spaced = ClientSettings(nameservers=servers.nameserver, namespace="prod")
        async with aio.TransactionProducer(group="g", topics="T", check=check, client_settings=spaced) as producer:
            await producer.send(Message("T", b"x"), lambda transaction: ROLLBACK)
            broker.ask("TX-1", group="prod%g", topic="prod%T")
            await until(lambda: broker.outcomes == [12, 8])
    assert {(end.header.topic, end.header.producer_group) for end in broker.ends} == {("prod%T", "prod%g")}
    assert topics == ["T"]


# --- without asyncio ---


async def test_the_sync_face_executes_on_the_calling_thread_and_checks_on_another() -> None:
    broker = TransactionBroker()
    checked_on: list[str] = []

    def check(message: aio.ReceivedMessage) -> aio.TransactionOutcome:
        checked_on.append(threading.current_thread().name)
        return ROLLBACK

    def work(nameserver: str) -> list[aio.TransactionOutcome]:
        me, executed_on = threading.get_ident(), list[int]()

        def execute(transaction: pyromq.Transaction) -> pyromq.TransactionOutcome:
            executed_on.append(threading.get_ident())
            return COMMIT

        def fail(transaction: pyromq.Transaction) -> None:
            raise ValueError

        with pyromq.TransactionProducer(nameserver, group="g", topics="T", check=check, confirm=True) as producer:
            receipts = [producer.send(Message("T", b"x"), execute), producer.send(Message("T", b"x"), fail)]
            with producer.transaction(Message("T", b"x")) as transaction:
                pass
            assert transaction.receipt is not None
            receipts.append(transaction.receipt)
            for error in (ValueError, KeyboardInterrupt):
                with pytest.raises(error), producer.transaction(Message("T", b"x")):
                    raise error
            with pytest.raises(KeyboardInterrupt):
                producer.send(Message("T", b"x"), interrupt)
            until_on_thread(lambda: len(broker.ends) >= 6)
            broker_loop.call_soon_threadsafe(broker.ask, "TX-1")
            until_on_thread(lambda: len(broker.ends) >= 7)
            assert executed_on == [me]
            with producer.transaction(Message("T", b"x")) as last:
                producer.close()
            assert last.receipt is not None and isinstance(last.receipt.unreported, ClientClosedError)
        return [receipt.outcome for receipt in receipts]

    def interrupt(transaction: pyromq.Transaction) -> None:
        transaction.commit()
        raise KeyboardInterrupt

    broker_loop = asyncio.get_running_loop()
    async with cluster(broker) as servers:
        assert await asyncio.to_thread(work, servers.nameserver) == [COMMIT, UNKNOWN, COMMIT]
    assert broker.outcomes == [8, 0, 8, 12, 0, 8, 12]
    assert checked_on[0].startswith("pyromq-check")


def test_the_sync_face_takes_no_coroutines() -> None:
    async def check(message: aio.ReceivedMessage) -> None: ...

    with pytest.raises(ConfigError, match=r"pyromq\.aio\.TransactionProducer runs coroutines"):
        pyromq.TransactionProducer("127.0.0.1:1", group="g", topics="T", check=check)  # type: ignore[arg-type]
