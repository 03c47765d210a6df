"""The commands of docs/how-to/replication.md, as they stand there but for ports and folders."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.aio import Producer
from pyromq.cli.servers.settings import for_broker
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.replication.settings import Role
from pyromq.results import SendStatus
from tests.integration.broker_process import BrokerProcess

pytestmark = pytest.mark.integration
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "replication.md"


def commands() -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def option(command: list[str], name: str, default: str = "") -> str:
    return command[command.index(name) + 1] if name in command else default


async def test_the_brokers_of_the_page_are_a_master_and_its_replica(tmp_path: Path) -> None:
    brokers = [command for command in commands() if command[1] == "broker"]
    assert [option(command, "--role") for command in brokers] == ["sync-master", "replica", "replica"]
    async with NameServer(NameServerSettings(port=0)) as names:
        nameserver = str(names.address)
        started = [BrokerProcess(tmp_path / option(command, "--data"), nameserver) for command in brokers[:2]]
        try:
            for broker, command in zip(started, brokers, strict=False):
                await broker.start(option(command, "--role"), int(option(command, "--broker-id", "0")))
            await started[0].until("replicationInSync", "1")
            async with Producer(group="senders", nameservers=[nameserver]) as producer:
                assert (await producer.send(Message("orders", b"1"))).status is SendStatus.SEND_OK
        finally:
            for broker in started:
                await broker.kill()


def test_every_setting_of_the_page_exists(tmp_path: Path) -> None:
    reads = next(command for command in commands() if "--set" in command)
    settings = for_broker([], {}, [option(reads, "--set"), "broker.broker_id=1", "broker.replication.role=replica"])
    assert settings.broker().replication.replica_reads
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "broker.toml"
    file.write_text(block, encoding="utf-8")
    replication = for_broker([file], {}, []).broker().replication
    assert (replication.role, replication.replica_addresses) == (Role.SYNC_MASTER, ("10.0.0.8",))
