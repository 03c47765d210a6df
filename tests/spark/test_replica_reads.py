"""The master is dead: batches and streams read what there is from its replica, and go on when it is back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyromq.clock import SystemClock
from pyromq.net import Address, open_connection
from pyromq.wire.codes import RequestCode
from pyromq.wire.json import bodies as wire_bodies
from pyromq.wire.json import java_json
from tests.spark.queries import Collected, run
from tests.spark.topics import Topics, bodies

pytestmark = pytest.mark.spark

WAIT_S = 120
COUNT = 40
SETTINGS = ("replication.replica_reads=true", "replication.metadata_interval_ms=100", "metrics.enabled=false")


class Server:
    """A server of ours as a process; ``address`` is known from its first line."""

    def __init__(self, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pyromq", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().partition("=")[2].split()[0]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def facts(self) -> dict[str, Any]:
        async def ask() -> dict[str, Any]:
            connection = await open_connection(Address.parse(self.address), clock=SystemClock())
            try:
                answer = await connection.request(RequestCode.GET_BROKER_RUNTIME_INFO, timeout_ms=10_000)
                return dict(java_json.decode(answer.body, wire_bodies.KeyValues).table)
            finally:
                connection.close()
                await connection.wait_closed()

        return asyncio.run(ask())


@contextmanager
def started(*words: str) -> Iterator[Server]:
    server = Server(*words)
    try:
        yield server
    finally:
        if server._process.returncode is None:
            server.kill()


def broker(folder: Path, nameserver: str, role: str, number: int) -> list[str]:
    sets = [word for each in SETTINGS for word in ("--set", f"broker.{each}")]
    words = ["broker", "--data", str(folder), "--port", "0", "--nameserver", nameserver, *sets]
    return [*words, "--role", role, "--broker-id", str(number)]


def until_copied(master: Server, replica: Server) -> None:
    end, deadline = int(master.facts()["commitLogMaxOffset"]), time.monotonic() + WAIT_S
    while int(replica.facts()["replicationMetadataLogEnd"]) < end:
        assert time.monotonic() < deadline, "the replica does not catch up"
        time.sleep(0.05)


def test_a_backlog_is_read_from_a_replica_while_the_master_is_dead(spark: Any, tmp_path: Path, checkpoint: str) -> None:
    with ExitStack() as stack:
        names = stack.enter_context(started("nameserver", "--port", "0"))
        words = broker(tmp_path / "master", names.address, "async-master", 0)
        master = stack.enter_context(started(*words))
        replica = stack.enter_context(started(*broker(tmp_path / "replica", names.address, "replica", 1)))
        with Topics(names.address, "backlog") as topics:
            topic = topics.make(queues=2)
            options = topics.options(topic, group=topics.group, startingOffsets="earliest", requestTimeout="10s")
            topics.send(topic, range(COUNT // 2))
            before = run(spark, options, checkpoint)
            topics.send(topic, range(COUNT // 2, COUNT))
            until_copied(master, replica)
            sent = Counter(topics.sent)
        master.kill()
        rows = spark.read.format("pyromq").options(nameserver=names.address, topic=topic).load().collect()
        assert bodies(rows) == sent, "as a table"
        sink = Collected()
        sink.batches |= before.batches
        run(spark, options, checkpoint, sink)
        assert bodies(sink.rows) == sent, "as a stream, which goes on where it was"

        again = stack.enter_context(started(*words))
        with Topics(names.address, "backlog") as topics:
            topics.create(topic, queues=2)
            topics.send(topic, range(COUNT, COUNT + 4))
            run(spark, options, checkpoint, sink)
            assert bodies(sink.rows) == sent + Counter(topics.sent), "at the master again"
        assert again.facts()["replicationRole"] == "async-master"
