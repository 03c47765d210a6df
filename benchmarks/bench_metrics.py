"""What scrapes cost a broker with many topics: CPU of its process, idle and under load, and stalls of its loop.

    python -m benchmarks.bench_metrics [--topics 1000] [--queues 8] [--seconds 4]

Each topic has a group that is behind in it, each queue a message. Scrapes come more often than the second for which a
collection is shared, so each is made anew; what they would cost every 15 s is computed from that.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
import urllib.request
from typing import Final

from benchmarks.generator import cpu_s
from benchmarks.measure import machine
from pyromq.aio import Admin, Producer
from pyromq.model.message import Message
from pyromq.model.queue import QueueId
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.settings import ClientSettings
from pyromq.testing import ServerProcess
from pyromq.wire.codes import RequestCode
from pyromq.wire.json import java_json

_INTERVAL_S: Final = 15
_SCRAPES: Final = 5
_FRESH_S: Final = 1.05
_AT_ONCE: Final = 16


async def fill(nameserver: str, topics: int, queues: int) -> None:
    async with (
        Admin(nameserver, client_settings=ClientSettings(request_timeout_ms=60_000)) as admin,
        Producer(group="b", client=admin.client) as producer,
    ):
        address = await admin.requests.directory.address("broker-a")
        names = [f"topic-{number}" for number in range(topics)]
        made = [TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues) for name in names]
        body = java_json.dumps({"topicConfigList": made})
        await admin.requests.brokers.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, body)
        groups = [GroupConfig(group_name=f"group-{number}") for number in range(topics)]
        body = java_json.dumps({"groupConfigList": groups})
        await admin.requests.brokers.ask(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, None, body)
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(name: str) -> None:
            async with gate:
                for place in [QueueId(name, "broker-a", each) for each in range(queues)]:
                    await producer.send(Message(name, b"x"), queue=place, timeout_ms=60_000)
                    await admin.offsets.commit(name.replace("topic", "group"), place, 0)

        await asyncio.gather(*map(one, names))


def scrape(url: str) -> bytes:
    with urllib.request.urlopen(url) as response:
        text: bytes = response.read()
        return text


def value_of(text: bytes, name: str) -> float:
    """All samples of a metric, added up."""
    return sum(float(line.split()[-1]) for line in text.decode().splitlines() if line.startswith(f"{name}{{"))


def cost_of_scrapes(pid: int, url: str) -> float:
    """CPU seconds of the whole process for each."""
    began_s, before_s = time.perf_counter(), cpu_s(pid)
    time.sleep(_SCRAPES * _FRESH_S)
    idle = (cpu_s(pid) - before_s) / (time.perf_counter() - began_s)
    began_s, before_s = time.perf_counter(), cpu_s(pid)
    for _ in range(_SCRAPES):
        scrape(url)
        time.sleep(_FRESH_S)
    return (cpu_s(pid) - before_s - idle * (time.perf_counter() - began_s)) / _SCRAPES


async def load(nameserver: str, seconds: float) -> int:
    async with Producer(nameserver, group="bench") as producer:
        until_s, count = time.perf_counter() + seconds, 0
        while time.perf_counter() < until_s:
            await asyncio.gather(*(producer.send(Message(f"topic-{number}", b"x" * 1024)) for number in range(64)))
            count += 64
        return count


def cpu_per_message(pid: int, nameserver: str, seconds: float) -> float:
    before_s = cpu_s(pid)
    count = asyncio.run(load(nameserver, seconds))
    return (cpu_s(pid) - before_s) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=4)
    given = parser.parse_args()
    print(machine())
    with ServerProcess("up", "--flush", "async") as process:
        url, nameserver = process.addresses["metrics"], process.nameserver
        asyncio.run(fill(nameserver, given.topics, given.queues))
        text = scrape(url)
        lines = len(text.splitlines())
        print(f"{given.topics} topics of {given.queues} queues, as many groups: {lines:,} lines")
        each_s = cost_of_scrapes(process.pid, url)
        on_loop_s = value_of(scrape(url), "pyromq_metrics_collect_seconds")
        print(f"  a scrape: {each_s * 1000:.0f} ms of CPU, {on_loop_s * 1000:.0f} ms of it on the event loop")
        print(f"  every {_INTERVAL_S} s: {each_s / _INTERVAL_S:.2%} of a core")
        cpu_per_message(process.pid, nameserver, 1)
        alone = cpu_per_message(process.pid, nameserver, given.seconds)
        stop = threading.Event()

        def keep_scraping() -> None:
            while not stop.is_set():
                scrape(url)
                stop.wait(_FRESH_S)

        scraper = threading.Thread(target=keep_scraping)
        scraper.start()
        beside = cpu_per_message(process.pid, nameserver, given.seconds)
        stop.set()
        scraper.join()
        text = scrape(url)
        print(f"  under load: {alone:.1f} µs a message, {beside:.1f} µs with a scrape every {_FRESH_S} s")
        print(f"  stalls of the loop: {value_of(text, 'pyromq_loop_stalls_total'):.0f}")


if __name__ == "__main__":
    main()
