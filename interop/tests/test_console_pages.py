"""The console's main pages on either server: what a person looks for is on them, and nothing is made up.

Apache's brokers do not tell some things (files of the store, why a message failed before our client said so); pages say
so, or leave them out, and open all the same.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from uuid import uuid4

import httpx

from interop.tests.conftest import case
from interop.tests.test_failure_stories import FIRST, CardDeclinedError, letters_of
from interop.world import Cluster
from pyromq import aio
from pyromq.console.app import create_app
from pyromq.console.auth.roles import ConsoleIdentity, ConsoleRole
from pyromq.console.settings import ConsoleSettings
from pyromq.model.message import Message
from pyromq.security.secret import Secret

SECTION = "Pages of the console × servers"
BASE = "http://127.0.0.1:8082"


@asynccontextmanager
async def browsing(cluster: Cluster) -> AsyncIterator[httpx.AsyncClient]:
    """A console on a cluster, and somebody who has signed in, without sockets between them."""
    settings = ConsoleSettings(
        nameservers=cluster.nameserver, password=Secret(secrets.token_hex()), first_paint_ms=30_000
    )
    console = create_app(settings)
    session = console.desk.sessions.begin(ConsoleIdentity("admin", ConsoleRole.OPERATOR))
    transport = httpx.ASGITransport(app=console, raise_app_exceptions=False)
    async with console.desk, httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as http:
        http.cookies.set("pyromq_console_8082", session.id, domain="127.0.0.1")
        yield http


async def words(http: httpx.AsyncClient, path: str) -> str:
    """What a page says; it must open."""
    answer = await http.get(path, follow_redirects=True)
    assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[-500:]}"
    main = answer.text.partition("<main")[2]
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", main)))


@case("overview, health, topic, group, message and dead letters open and show what is there", SECTION)
async def test_the_main_pages_show_what_is_there(cluster: Cluster) -> None:
    topic, group = f"orders-{uuid4().hex[:8]}", f"billing-{uuid4().hex[:8]}"

    async def bill(message: aio.ReceivedMessage) -> None:
        raise CardDeclinedError("the card has expired")

    async with aio.Admin(cluster.nameserver) as admin:
        await admin.topics.create(topic, queues=1)
        async with aio.Producer(cluster.nameserver, group="makers") as producer:
            sent = await producer.send(Message(topic, b"42", keys="order-42", tags="new"))
        async with aio.PushConsumer(cluster.nameserver, group=group, listener=bill, topics=topic, settings=FIRST):
            await letters_of(admin, group, 1)
            async with browsing(cluster) as http:
                overview = await words(http, "/")
                assert "Messages a second" in overview and "Brokers" in overview and "reached from here" in overview
                assert "Health" in await words(http, "/health")
                assert topic in await words(http, f"/topics?q={topic}")
                assert topic in await words(http, f"/topics/{topic}")
                assert group in await words(http, f"/topics/{topic}/clients")
                shown = await words(http, f"/groups/{group}")
                assert group in shown and topic in shown and "connected" in shown
                found = await words(http, f"/messages?topic={topic}&key=order-42")
                assert sent.message_id in found
                message = await words(http, f"/messages/{topic}/{sent.message_id}")
                assert "order-42" in message and group in message
                letters = await words(http, f"/dead-letters/{group}")
                assert "CardDeclinedError" in letters and "the card has expired" in letters


@case("every page of the navigation opens", SECTION)
async def test_every_page_of_the_navigation_opens(cluster: Cluster) -> None:
    async with browsing(cluster) as http:
        navigation = (await http.get("/")).text.partition('<nav id="nav"')[2].partition("</nav>")[0]
        paths = re.findall(r'<a href="([^"]+)"', navigation)
        assert len(paths) > 10
        said = await asyncio.gather(*(words(http, path) for path in paths))
    assert not [path for path, text in zip(paths, said, strict=True) if "Internal error" in text]
