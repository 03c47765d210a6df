"""Typed bodies: an order of five fields and two items, 150 bytes of JSON, on one core."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from benchmarks.measure import Row, measure
from pyromq.client.consumer.base.listeners import Listener
from pyromq.client.core.received_message import ReceivedMessage, split_messages
from pyromq.typed import CONTENT_TYPE, decoder_for, encode, message
from pyromq.wire.message_id import Host
from pyromq.wire.properties import encode_properties
from pyromq.wire.record import Draft, encode_record

TIMES = 100_000
HOST = Host.parse("10.0.0.1:10911").encode()


class Item(msgspec.Struct):
    name: str
    price: float


class Order(msgspec.Struct):
    id: int
    customer: str
    amount: float
    paid: bool
    items: list[Item]


@dataclass
class PlainOrder:
    id: int
    customer: str
    amount: float
    paid: bool
    items: list[dict[str, Any]]


ORDER = Order(42, "customer-7", 19.8, True, [Item("a small thing", 9.9), Item("another thing", 9.9)])
JSON = {CONTENT_TYPE: "application/json"}


def rows() -> list[Row]:
    body = encode(ORDER).body
    found = [
        measure("json.loads, for comparison", partial(_times, partial(json.loads, body))),
        measure("msgspec.Struct, decode", partial(_times, partial(decoder_for(Order), body, JSON))),
        measure("dataclass, decode", partial(_times, partial(decoder_for(PlainOrder), body, JSON))),
        measure("dict, decode", partial(_times, partial(decoder_for(dict), body, JSON))),
        measure("msgspec.Struct, encode", partial(_times, partial(encode, ORDER))),
        measure("message(topic, struct)", partial(_times, partial(message, "orders", ORDER))),
    ]
    received = _received(body)
    found.append(measure("listener of messages, a call", partial(_times, _call(lambda given: None, received))))
    found.append(measure("listener of structs, a call", partial(_times, _call(_handle, received))))
    if (model := _pydantic()) is not None:
        found.append(measure("pydantic model, decode", partial(_times, partial(decoder_for(model), body, JSON))))
    return found


def _handle(order: Order) -> None:
    pass


def _call(function: Callable[..., Any], received: ReceivedMessage) -> Callable[[], Any]:
    return partial(Listener(function, None, threads=1, name="bench").function, received)


def _received(body: bytes) -> ReceivedMessage:
    properties = encode_properties({"UNIQ_KEY": "7F0000010B3C18B4AAC2", **JSON, "schema": "Order", "WAIT": "true"})
    draft = Draft(topic="orders", body=body, queue_id=0, properties=properties)
    (received,) = split_messages(encode_record(draft, offset=0, position=0, stored_ms=1, store_host=HOST), "broker-a")
    return received


def _pydantic() -> type[Any] | None:
    try:
        from pydantic import BaseModel
    except ModuleNotFoundError:
        return None

    class ItemModel(BaseModel):
        name: str
        price: float

    class OrderModel(BaseModel):
        id: int
        customer: str
        amount: float
        paid: bool
        items: list[ItemModel]

    OrderModel.model_rebuild(_types_namespace={"ItemModel": ItemModel})
    return OrderModel


def _times(work: Callable[[], Any]) -> int:
    for _ in range(TIMES):
        work()
    return TIMES
