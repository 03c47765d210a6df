"""How agents reach the lease store: over the simulated network, through the clients that PyroMQ has for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from unittest.mock import patch

from pyromq.failover import postgres
from pyromq.failover.http_json import TIMEOUT_S, Answer, HttpJson
from pyromq.failover.record import LeaseStoreAwayError
from tests.sim.lease_models import EtcdModel, PostgresModel
from tests.sim.loop import Machine, Process, SimLoop


class LeaseServer:
    """A machine with the model of a lease store on it."""

    def __init__(self, loop: SimLoop, machine: Machine, process: Process, model: EtcdModel | PostgresModel) -> None:
        self._loop = loop
        self.machine = machine
        self.process = process
        self.model = model
        self.slow_s = 0.0
        self.requests = 0

    async def call(self, execute: Callable[[], Any], timeout_s: float = float("inf")) -> Any:
        """What ``execute`` returns, there. A request that is under way arrives, also when its sender waits no more."""
        asking = self._loop.current
        assert asking is not None
        if self.process.is_dead and self.machine.has_power:
            raise ConnectionRefusedError(111, "nobody listens")
        done = self._loop.create_future()
        source, here = asking.machine.ip, self.machine.ip

        def answer() -> None:
            self.requests += 1
            result = execute()
            self._pass(here, source, lambda: done.done() or done.set_result(result))

        self._pass(source, here, lambda: self._after(self.slow_s, answer) if self.slow_s else answer())
        if timeout_s == float("inf"):
            return await done
        timer = self._loop.call_later(timeout_s, lambda: done.done() or done.set_exception(TimeoutError()))
        try:
            return await done
        finally:
            timer.cancel()

    def _pass(self, source: str, target: str, then: Callable[[], object]) -> None:
        """Call ``then`` when a packet has gone this way, which may have to be opened first."""
        network = self._loop.network

        async def wait() -> None:
            await network.passed(source, target)
            then()

        def arrive() -> None:
            if network.is_open(source, target):
                then()
            else:
                self._loop.create_task(wait(), name="lease store")

        self._after(network.delay_s(source, target), arrive)

    def _after(self, delay_s: float, then: Callable[[], object]) -> None:
        self._loop.call_for(self.process, self._loop.true_s + delay_s, then)


class Reached(Protocol):
    """Where a model is."""

    model: EtcdModel | PostgresModel

    async def call(self, execute: Callable[[], Any], timeout_s: float = float("inf")) -> Any:
        """Raises OSError, TimeoutError."""


class Beside:
    """A model without any network: what is asked for is done at once."""

    def __init__(self, model: EtcdModel | PostgresModel) -> None:
        self.model = model

    async def call(self, execute: Callable[[], Any], timeout_s: float = float("inf")) -> Any:
        return execute()


@contextmanager
def reached(server: Reached) -> Iterator[None]:
    """Inside the block ``EtcdLeaseStore`` and ``PostgresLeaseStore`` talk to this server."""

    async def ask(http: HttpJson, method: str, path: str, body: Any = None) -> Answer:
        model = server.model
        assert isinstance(model, EtcdModel)
        try:
            return Answer(*await server.call(lambda: model.ask(method, path, body), TIMEOUT_S))
        except (OSError, TimeoutError) as error:
            raise LeaseStoreAwayError(f"{http.base} does not answer: {error}") from error

    driver = _Driver(server)
    with patch.object(HttpJson, "ask", ask), patch.object(postgres, "_driver", lambda: driver):
        yield


class _Error(Exception):
    """As psycopg's."""

    sqlstate: str | None = None


class _OperationalError(_Error):
    """As psycopg's."""


class _Cursor:
    def __init__(self, row: Any) -> None:
        self._row = row

    async def fetchone(self) -> Any:
        return self._row


class _Connection:
    def __init__(self, server: Reached) -> None:
        self._server = server
        self.closed = False

    async def execute(self, statement: bytes, values: tuple[Any, ...] = ()) -> _Cursor:
        model = self._server.model
        assert isinstance(model, PostgresModel)
        try:
            return _Cursor(await self._server.call(lambda: model.execute(statement.decode(), values)))
        except OSError as error:
            self.closed = True
            raise _OperationalError(f"server closed the connection unexpectedly: {error}") from error

    async def close(self) -> None:
        self.closed = True


class _Driver:
    """What ``PostgresLeaseStore`` uses of psycopg."""

    Error = _Error
    OperationalError = _OperationalError

    def __init__(self, server: Reached) -> None:
        class AsyncConnection:
            @staticmethod
            async def connect(*_: Any, **__: Any) -> _Connection:
                connection = _Connection(server)
                await connection.execute(b"CREATE")
                return connection

        self.AsyncConnection = AsyncConnection
