"""No request makes a server call an address that it names; and a server listens where it says, nowhere else."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyromq.nameserver import service
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.headers import REQUEST_HEADERS
from pyromq.wire.message_id import Host, encode_offset_id
from tests.hostile.every_request import request_of, served_codes
from tests.hostile.rig import Peer, Victim, victim

pytestmark = pytest.mark.integration

ADDRESSES = (
    *("addr", "address", "brokerAddr", "brokerIP1", "brokerIP2", "clientAddr", "clientHost", "haServerAddr", "host"),
    *("masterAddr", "masterAddress", "masterHaAddress", "namesrvAddr", "serverAddr", "storeHost", "bornHost", "url"),
)
IDS = ("msgId", "offsetMsgId", "originMsgId", "transactionId", "uniqKey", "key")
SETTINGS = "namesrvAddr={0}\nhaMasterAddress={0}\nbrokerIP1=127.0.0.1\nrmqAddressServerDomain={0}\nproxyAddr={0}\n"


@contextmanager
def trap() -> Iterator[socket.socket]:
    """Where nobody should come."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


def is_visited(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def strings_of(code: int) -> list[str]:
    header = REQUEST_HEADERS.get(code)  # type: ignore[call-overload]
    return [] if header is None else list(header.__struct_encode_fields__)


async def ask_everything(server: Victim, address: str, codes: list[Code], target: str, name: str) -> None:
    host, port = target.split(":")
    offset_id = encode_offset_id(Host(socket.inet_aton(host), int(port)), 0)
    baits = {**dict.fromkeys(ADDRESSES, target), **dict.fromkeys(IDS, offset_id)}
    for code in codes:
        fields, body = request_of(code, "orders", "readers")
        settings = code in (Code.UPDATE_BROKER_CONFIG, Code.UPDATE_NAMESRV_CONFIG)
        for ext in ({**fields, **baits}, {**fields, **baits, **dict.fromkeys(strings_of(code), target)}):
            async with Peer(address) as peer:
                await peer.ask(code, ext, SETTINGS.format(target).encode() if settings else body)
        assert server.is_running, (code, name)


async def test_no_request_steers_a_server_to_an_address(tmp_path: Path) -> None:
    """Whoever may ask everything asks for it: there is no access control, and still nothing is called."""
    with trap() as listener:
        target = "{}:{}".format(*listener.getsockname())
        async with victim(tmp_path) as server:
            for code in (Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.SEND_MESSAGE_V2):
                async with Peer(server.broker) as peer:
                    assert (await peer.ask(code, *request_of(code, "orders", "readers"))).code == 0
            names = sorted(map(Code, service._HANDLES))
            await ask_everything(server, server.nameserver, names, target, "name server")
            await ask_everything(server, server.broker, served_codes(), target, "broker")
            await asyncio.sleep(1.5)  # a turn of everything that is done once a second
            assert not is_visited(listener)
        socket.create_connection(listener.getsockname()).close()
        assert is_visited(listener), "a visit would have been noticed"


def listening(process: int) -> set[tuple[str, int]]:
    """Addresses on which a process listens, as the system knows them."""
    inodes = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", str(descriptor.readlink()))
        except FileNotFoundError:  # closed meanwhile
            continue
        if found:
            inodes.add(found[1])
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:  # LISTEN
                host, port = fields[1].split(":")
                shown = socket.inet_ntoa(bytes.fromhex(host)[::-1]) if table == "tcp" else host
                addresses.add((shown, int(port, 16)))
    return addresses


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="the system has no /proc")
async def test_a_process_listens_on_the_ports_that_it_names_and_on_no_other(tmp_path: Path) -> None:
    async with victim(tmp_path, "--set", "broker.vip_port=false") as server:
        found = listening(server.pid)
        said = {int(address.rsplit(":", 1)[1]) for address in (server.nameserver, server.broker)}
        assert {host for host, _ in found} == {"127.0.0.1"}, "nothing beyond this machine unless it is told"
        assert said < {port for _, port in found} and len(found) == 4, f"name server, broker, gRPC and metrics: {found}"
