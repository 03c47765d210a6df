"""An app inside FastAPI: both start and end together."""

from __future__ import annotations

import asyncio

import httpx
import msgspec
import pytest
from fastapi import FastAPI

from pyromq import App, aio
from pyromq.testing import LoopbackBroker
from tests.integration.waiting import until

pytestmark = pytest.mark.integration


class Order(msgspec.Struct):
    id: int


def service(nameserver: str, seen: list[object]) -> FastAPI:
    app = App(nameserver, name="shop")

    @app.consume("orders", group="billing", start="earliest")
    async def bill(order: Order) -> None:
        await asyncio.sleep(0)
        seen.append(order.id)

    @app.on_stop
    async def end() -> None:
        seen.append("end")

    web = FastAPI(lifespan=app.lifespan)

    @web.post("/orders/{number}")
    async def order(number: int) -> dict[str, str]:
        receipt = await app.send("orders", Order(number))
        return {"message": receipt.message_id, "state": app.state}

    return web


async def test_a_request_sends_and_a_listener_consumes_within_one_lifespan() -> None:
    seen = list[object]()
    async with LoopbackBroker() as broker:
        async with aio.Admin(broker.nameserver) as admin:
            await admin.topics.create("orders")
        web = service(broker.nameserver, seen)
        async with (
            web.router.lifespan_context(web),
            httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://shop") as client,
        ):
            response = await client.post("/orders/7")
            assert response.status_code == 200 and response.json()["state"] == "running"
            await until(lambda: seen == [7])
        assert seen == [7, "end"]
        async with web.router.lifespan_context(web):  # as a reload of the server does
            pass
        assert seen == [7, "end", "end"]


async def test_a_lifespan_of_your_own_has_the_app_in_it() -> None:
    from collections.abc import AsyncIterator
    from contextlib import asynccontextmanager

    async with LoopbackBroker() as broker:
        app = App(broker.nameserver, name="shop")

        @asynccontextmanager
        async def lifespan(web: FastAPI) -> AsyncIterator[None]:
            async with app:
                yield

        web = FastAPI(lifespan=lifespan)
        async with web.router.lifespan_context(web):
            assert app.state == "running"
        assert app.state == "stopped"
