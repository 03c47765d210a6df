"""The real server on loopback, asked over real connections; and the process with its signals."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyromq.clock import SystemClock
from pyromq.errors import ConfigError
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import Address, Connection, open_connection
from pyromq.testing import ServerProcess
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.json.route import decode_route
from pyromq.wire.received import Received
from tests.unit.nameserver.builders import A, B, member, register_body, register_ext

pytestmark = pytest.mark.integration

LIMIT_S = 90
ANY_PORT = NameServerSettings(port=0)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, LIMIT_S))


@asynccontextmanager
async def connected(address: Address) -> AsyncIterator[Connection]:
    connection = await open_connection(address, clock=SystemClock())
    try:
        yield connection
    finally:
        connection.close()
        await connection.wait_closed()


async def register(connection: Connection, who: Any = None, **ext: str) -> None:
    response = await connection.request(
        Code.REGISTER_BROKER, register_ext(who, **ext), register_body(), timeout_ms=30_000
    )
    assert response.code == 0, response.remark


async def ask_route(connection: Connection, topic: str = "T1") -> Received[Any]:
    return await connection.request(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, timeout_ms=30_000)


async def wait_until_gone(connection: Connection) -> None:
    """A closed connection is noticed soon, not at once."""
    while (await ask_route(connection)).code == 0:
        pass


def test_a_registered_topic_is_found_over_another_connection() -> None:
    async def main() -> None:
        async with NameServer(ANY_PORT) as server, connected(server.address) as broker:
            await register(broker)
            async with connected(server.address) as client:
                response = await ask_route(client)
                assert decode_route(response.body).broker_datas[0].broker_addrs == {0: A}
                assert (await ask_route(client, "nowhere")).code == 17

    run(main())


def test_a_closed_connection_takes_its_broker_out_of_the_route() -> None:
    async def main() -> None:
        async with NameServer(ANY_PORT) as server, connected(server.address) as client:
            async with connected(server.address) as one, connected(server.address) as two:
                await register(one)
                await register(two, member("broker-b", address=B))
                one.close()
                while len((route := decode_route((await ask_route(client)).body)).broker_datas) == 2:
                    pass
                assert [broker.broker_name for broker in route.broker_datas] == ["broker-b"]
            await wait_until_gone(client)
            assert (await ask_route(client)).code == 17

    run(main())


def test_a_silent_broker_is_dropped_and_its_connection_closed() -> None:
    async def main() -> None:
        settings = NameServerSettings(port=0, scan_interval_ms=100)
        async with NameServer(settings) as server, connected(server.address) as client:
            async with connected(server.address) as broker:
                await register(broker, heartbeatTimeoutMillis="1")
                await broker.wait_closed()
            assert (await ask_route(client)).code == 17

    run(main())


def test_name_servers_do_not_know_of_each_other() -> None:
    async def main() -> None:
        async with NameServer(ANY_PORT) as first, NameServer(ANY_PORT) as second:
            async with connected(first.address) as to_first, connected(second.address) as to_second:
                await register(to_first)
                assert (await ask_route(to_first)).code == 0
                assert (await ask_route(to_second)).code == 17
                await register(to_second)
                assert (await ask_route(to_second)).code == 0
                to_first.close()
                assert (await ask_route(to_second)).code == 0

    run(main())


def test_a_bad_header_is_answered_and_the_connection_goes_on() -> None:
    async def main() -> None:
        async with NameServer(ANY_PORT) as server, connected(server.address) as client:
            assert (await client.request(Code.GET_ROUTEINFO_BY_TOPIC, {}, timeout_ms=30_000)).code == 1
            assert (await client.request(Code.SEND_MESSAGE, {}, timeout_ms=30_000)).code == 3
            assert (await client.request(9999, {}, timeout_ms=30_000)).code == 3
            assert (await ask_route(client)).code == 17

    run(main())


def test_many_questions_at_once_are_all_answered() -> None:
    async def main() -> None:
        async with NameServer(ANY_PORT) as server, connected(server.address) as client:
            await register(client)
            responses = await asyncio.gather(*(ask_route(client, f"T{number % 4}") for number in range(400)))
            assert [response.code for response in responses] == [17, 0, 0, 17] * 100

    run(main())


def test_key_values_survive_a_restart(tmp_path: Path) -> None:
    settings = NameServerSettings(port=0, kv_path=tmp_path / "kvConfig.json")
    place = {"namespace": "n", "key": "k"}

    async def main() -> None:
        async with NameServer(settings) as server, connected(server.address) as client:
            assert (await client.request(Code.PUT_KV_CONFIG, {**place, "value": "v"}, timeout_ms=30_000)).code == 0
        async with NameServer(settings) as server, connected(server.address) as client:
            assert (await client.request(Code.GET_KV_CONFIG, place, timeout_ms=30_000)).ext() == {"value": "v"}

    run(main())


def test_a_port_in_use_is_a_clear_error() -> None:
    async def main() -> None:
        async with NameServer(ANY_PORT) as server:
            with pytest.raises(ConfigError, match="cannot listen"):
                async with NameServer(NameServerSettings(port=server.address.port)):
                    pass

    run(main())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_process_says_when_it_is_ready_and_stops_in_order(number: signal.Signals) -> None:
    with ServerProcess("nameserver", env={"PYTHONUNBUFFERED": ""}) as server:
        assert server.output.startswith("ready nameserver=127.0.0.1:")

        async def main() -> None:
            async with connected(Address.parse(server.addresses["nameserver"])) as client:
                await register(client)
                assert (await ask_route(client)).code == 0

        run(main())
        server.signal(number)
        assert server.wait() == 0 and server.output.count("\n") == 1
