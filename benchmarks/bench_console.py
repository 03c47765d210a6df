"""The console with many topics and groups: how long the first byte to the last of a page takes, caches cold.

    python -m benchmarks.bench_console [--topics 10000] [--groups 1000]

A real ``pyromq up`` with that many topics (4 queues each) and groups, and the console in this process, asked over ASGI
without a browser. Every page is asked once with empty caches (cold), and again (warm); CPU is that of the console's
process for the cold one. The goal is a first paint under a second with ten thousand topics.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx

from pyromq.console.app import Console, create_app
from pyromq.console.auth.roles import ConsoleIdentity, ConsoleRole
from pyromq.console.settings import ConsoleSettings
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.security.secret import Secret
from pyromq.testing import ServerProcess
from pyromq.wire.codes import RequestCode
from pyromq.wire.json import java_json

_AT_ONCE: Final = 1_000
_GOAL_S: Final = 1.0
PAGES: Final = (
    "/topics",
    "/topics?page=100",
    "/topics?q=topic-09",
    "/topics?kind=all&sort=name&order=desc",
    "/topics?q=topic-0123&sort=lag&order=desc",
    "/topics/topic-05000",
    "/",
    "/groups",
    "/groups/group-0500",
)


@contextmanager
def servers() -> Iterator[str]:
    """The address of a name server whose broker has no topics yet."""
    with ServerProcess("up", "--flush", "async") as server:
        yield server.nameserver


async def fill(console: Console, topics: int, groups: int) -> None:
    admin = console.desk.admin
    (address,) = await admin.requests.directory.masters()
    for begin in range(0, topics, _AT_ONCE):
        names = [f"topic-{number:05}" for number in range(begin, min(topics, begin + _AT_ONCE))]
        configs = [TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4) for name in names]
        body = java_json.dumps({"topicConfigList": configs})
        await admin.requests.brokers.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, body)
    for number in range(groups):
        name = f"group-{number:04}"
        await admin.groups.create(GroupConfig(group_name=name))
        if number < 50:
            await admin.offsets.reset(name, f"topic-{number:05}", to_ms=0)
    while len(await admin.topics.names()) < topics:  # noqa: ASYNC110, the broker tells name servers a moment later
        await asyncio.sleep(0.1)


async def measure(nameserver: str, topics: int, groups: int) -> bool:
    console = create_app(ConsoleSettings(nameservers=nameserver, password=Secret(secrets.token_hex())))
    session = console.desk.sessions.begin(ConsoleIdentity("admin", ConsoleRole.OPERATOR))
    base, good = "http://127.0.0.1:8082", True
    async with console.desk, httpx.AsyncClient(transport=httpx.ASGITransport(app=console), base_url=base) as http:
        http.cookies.set("pyromq_console_8082", session.id, domain="127.0.0.1")
        began = time.perf_counter()
        await fill(console, topics, groups)
        print(f"{topics} topics and {groups} groups made in {time.perf_counter() - began:.1f} s")
        print(f"{'page':44} {'cold':>9} {'CPU':>9} {'warm':>9} {'KiB':>7}")
        for path in PAGES:
            console.desk.cache.forget_all()
            times, cpu = [], time.process_time()
            for _ in range(2):
                start = time.perf_counter()
                response = await http.get(path)
                times.append(time.perf_counter() - start)
                cpu = time.process_time() - cpu if len(times) == 1 else cpu
            if response.status_code != 200:
                print(f"{path:44} {response.status_code}")
                continue
            good &= times[0] < _GOAL_S
            shown = " ".join(f"{each * 1000:6.0f} ms" for each in (times[0], cpu, times[1]))
            print(f"{path:44} {shown} {len(response.content) / 1024:7.1f}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=1_000)
    given = parser.parse_args()
    with servers() as nameserver:
        good = asyncio.run(measure(nameserver, given.topics, given.groups))
    print("goal: every page under a second, cold:", "met" if good else "not met")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
