"""The commands of docs/how-to/failover.md, as they stand there but for ports and folders."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.aio import Producer
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.results import SendStatus
from pyromq.testing import AsyncServerProcess, free_port
from tests.integration.lease_stores import etcd
from tests.integration.waiting import PATIENCE_S

pytestmark = pytest.mark.integration
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "failover.md"


def commands() -> list[str]:
    """Those of the example; a block inside of a list names machines that nobody has here."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


async def run(words: list[str]) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode is not None
    return process.returncode, said.decode()


async def until_it_works(words: list[str], is_good: Callable[[str], object]) -> str:
    for _ in range(100):
        code, said = await run(words)
        if code == 0 and is_good(said):
            return said
        await asyncio.sleep(0.1)
    raise AssertionError(said)


async def test_the_page_makes_a_pair_that_is_switched(tmp_path: Path) -> None:
    assert [shlex.split(line)[1] for line in commands()] == [
        *("nameserver", "broker", "broker", "failover", "failover", "cluster", "cluster"),
    ]
    with etcd() as lease_store:
        async with NameServer(NameServerSettings(port=0)) as names:
            ports = {
                "9876": str(names.address.port),
                "10911": str(free_port(neighbours=(1,))),
                "10921": str(free_port(neighbours=(1,))),
                "2379": lease_store.rpartition(":")[2],
            }

            def words(line: str) -> list[str]:
                found = re.sub(r"\b(9876|10911|10921|2379)\b", lambda match: ports[match[0]], line)
                found = re.sub(r"--data (\S+)", lambda match: f"--data {tmp_path / match[1]}", found)
                return shlex.split(found)

            _, one, two, *agents, leases, switch = map(words, commands())
            more = ["--nameserver", str(names.address), "--no-metrics", "--set", "broker.vip_port=false"]
            programs = [
                *(AsyncServerProcess(*each[1:], *more) for each in (one, two)),
                *(AsyncServerProcess(*each[1:]) for each in agents),
            ]
            try:
                for program in programs:
                    await program.start()
                both = re.compile(r"(yes.*){2}", re.DOTALL)
                await until_it_works(leases_of(leases), both.search)
                async with Producer(str(names.address), group="senders") as producer:
                    assert (await producer.send(Message("orders", b"1"))).status is SendStatus.SEND_OK
                    await until_it_works(leases_of(leases), both.search)
                    code, said = await run(switch)
                    assert code == 0 and f"127.0.0.1:{ports['10921']} is master" in said, said
                    await producer.send(Message("orders", b"2"))
            finally:
                for program in programs:
                    await program.kill()


def leases_of(command: list[str]) -> list[str]:
    return [*command, "--output", "table"]
