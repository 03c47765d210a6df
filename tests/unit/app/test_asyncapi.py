"""The AsyncAPI document of an app: whole, and every reference leads somewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest
import yaml

from pyromq import App, ReceivedMessage
from pyromq.app.yaml_text import to_yaml
from pyromq.errors import ConfigError


class Item(msgspec.Struct):
    name: str
    price: float


class Order(msgspec.Struct):
    id: int
    items: list[Item]


@dataclass
class Refund:
    order: Order
    reason: str = ""


class Customer(pydantic.BaseModel):
    email: str
    tags: list[str] = []


class Question(msgspec.Struct):
    what: str


def the_app() -> App:
    app = App("10.0.0.1:9876;10.0.0.2:9876", name="shop")

    @app.consume("orders", group="billing", tags="new", orderly=True)
    async def bill(order: Order) -> None:
        """Bills an order.

        Once, and in order.
        """

    @app.consume("orders", group="archive")
    def archive(message: ReceivedMessage) -> None: ...

    @app.consume(["refunds", "returns"], group="refunding", batch=10)
    def refund(refunds: list[Refund]) -> None: ...

    @app.consume("customers", group="crm")
    def remember(customer: Customer) -> None: ...

    @app.consume("notes", group="crm-notes")
    def note(text: str) -> None: ...

    @app.consume("pictures", group="crm-pictures")
    def picture(data: bytes) -> None: ...

    @app.reply("prices", group="pricing")
    def price(question: Question) -> float:
        return 7.5

    app.sends("billed", Order, tags="paid", description="After the bill.")
    return app


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for each in value.values() for found in references(each)]
    return [found for each in value for found in references(each)] if isinstance(value, list) else []


def resolve(document: Any, reference: str) -> Any:
    assert reference.startswith("#/")
    for part in reference[2:].split("/"):
        document = document[part]
    return document


def check_structure(document: dict[str, Any]) -> None:
    """What AsyncAPI 3.0 demands of the parts that we write."""
    assert set(document) <= {
        *("asyncapi", "id", "info", "servers", "defaultContentType", "channels", "operations", "components"),
    }
    assert document["asyncapi"] == "3.0.0" and {"title", "version"} <= set(document["info"])
    keys = re.compile(r"^[A-Za-z0-9.\-_]+$")
    for server in document.get("servers", {}).values():
        assert {"host", "protocol"} <= set(server) and "/" not in server["host"]
    for part in ("servers", "channels", "operations"):
        assert all(keys.match(name) for name in document.get(part, {}))
    for kind, values in document.get("components", {}).items():
        assert kind in ("messages", "schemas") and all(keys.match(name) for name in values)
    for channel in document["channels"].values():
        assert set(channel) == {"address", "messages"} and channel["messages"]
    for operation in document["operations"].values():
        assert operation["action"] in ("send", "receive")
        assert set(operation) <= {"action", "channel", "summary", "description", "messages", "reply", "x-rocketmq"}
        channel = operation["channel"]["$ref"]
        assert re.fullmatch("#/channels/[^/]+", channel)
        for message in operation["messages"]:
            assert message["$ref"].startswith(f"{channel}/messages/"), "messages of the operation's own channel"
    for message in document["components"]["messages"].values():
        assert set(message) <= {"name", "contentType", "payload"}
    for reference in references(document):
        assert resolve(document, reference) is not None


def test_the_document_is_whole() -> None:
    document = the_app().asyncapi(version="2.1.0")
    check_structure(document)
    assert document["info"] == {"title": "shop", "version": "2.1.0"}
    assert document["servers"]["nameserver2"] == {"host": "10.0.0.2:9876", "protocol": "rocketmq"}
    assert set(document["channels"]) == {
        *("orders", "refunds", "returns", "customers", "notes", "pictures", "prices", "billed"),
    }
    bill = document["operations"]["bill"]
    assert (bill["summary"], bill["description"]) == ("Bills an order.", "Once, and in order.")
    assert bill["x-rocketmq"] == {"group": "billing", "tags": "new", "orderly": True}
    assert document["operations"]["send-billed"]["action"] == "send"
    assert "reply" in document["operations"]["price"]
    assert {"refund-refunds", "refund-returns"} <= set(document["operations"])
    schemas = document["components"]["schemas"]
    assert schemas["Order"]["properties"]["items"]["items"] == {"$ref": "#/components/schemas/Item"}
    assert {"Item", "Refund", "Customer", "Question"} <= set(schemas)
    assert document["components"]["messages"]["Order"]["contentType"] == "application/json"


def test_an_empty_app_has_a_document() -> None:
    document = App().asyncapi()
    assert document["info"]["title"] == "pyromq-app" and "channels" not in document


def test_the_document_as_yaml_is_the_same() -> None:
    document = the_app().asyncapi()
    assert yaml.safe_load(to_yaml(document)) == document


@pytest.mark.parametrize(
    "value",
    [
        {"a": [], "b": {}, "c": "", "d": None, "e": True, "f": 1.5, "g": -3},
        {"a": [[1, 2], [{"b": [3]}], "x"], "on": "yes", "null": "null", "1": "007", "k: v": "a: b # c"},
        {"text": "two\nlines\ttab \"quoted\" 'single' ü 😀", "dash": "- x", "star": "*a", "tilde": "~", "e": "1e3"},
    ],
)
def test_any_document_as_yaml_is_the_same(value: dict[str, Any]) -> None:
    assert yaml.safe_load(to_yaml(value)) == value


def test_two_types_of_one_name_are_told_apart_by_a_refusal() -> None:
    app = App(name="shop")

    def listener(kind: Any) -> Any:
        def handle(body: Any) -> None: ...

        handle.__annotations__["body"] = kind
        return handle

    app.consume("a", group="one")(listener(msgspec.defstruct("Order", [("id", int)])))
    app.consume("b", group="two")(listener(msgspec.defstruct("Order", [("id", str)])))
    with pytest.raises(ConfigError, match="parts called Order: rename"):
        app.asyncapi()
