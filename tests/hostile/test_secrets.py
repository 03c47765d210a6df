"""Secrets stay secret: a canary in credentials, URLs and bodies is in no log, error, repr or answer."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq import Message, aio
from pyromq.errors import ConfigError, MQError
from pyromq.outbox import Outbox
from pyromq.settings import ClientSettings
from pyromq.wire.codes import RequestCode
from tests.hostile.rig import Peer, beside_honest_client, victim

pytestmark = pytest.mark.integration

CANARY = "c4n4ry-s3cr3t"
CREDENTIALS = aio.Credentials("public-name", CANARY, f"{CANARY}-token")
PASSWORD_URL = f"http://operator:{CANARY}@127.0.0.1:1/rocketmq/nsaddr"


class Seen:
    """Everything that a user or operator could read."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def add(self, what: str, *things: Any) -> None:
        text = self.texts.get(what, "")
        for thing in things:
            text += f"{thing!s}\n{thing!r}\n"
            if isinstance(thing, BaseException):
                for each in (thing.__cause__, thing.__context__, *getattr(thing, "__notes__", ())):
                    text += f"{each!s}\n{each!r}\n"
        self.texts[what] = text

    def check(self) -> None:
        assert [what for what, text in self.texts.items() if CANARY in text] == []


async def fails(seen: Seen, what: str, work: Any) -> None:
    try:
        result = await work
    except MQError as error:
        seen.add(what, error)
    else:
        seen.add(what, result)


async def test_credentials_and_bodies_are_nowhere_to_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, record_property: Callable[[str, object], None]
) -> None:
    caplog.set_level(logging.DEBUG)
    seen = Seen()
    async with victim(tmp_path, "--log", "debug") as server:
        async with beside_honest_client(server, "requests with secrets that fail", 20, record_property):
            options: Any = {"credentials": CREDENTIALS}
            async with (
                aio.Producer(server.nameserver, group="g", **options) as producer,
                aio.Admin(server.nameserver, **options) as admin,
            ):
                seen.add("objects", producer, producer.settings, producer.client, producer.client.settings, admin)
                seen.add("credentials", CREDENTIALS)
                await fails(seen, "send", producer.send(Message("t", CANARY.encode())))
                queue = aio.QueueId("t", "broker-z", 77)
                await fails(seen, "no such queue", producer.send(Message("t", CANARY.encode()), queue=queue))
                await fails(seen, "no time", producer.send(Message("t", CANARY.encode() * 1000), timeout_ms=1))
                await fails(seen, "no topic", admin.topics.stats("nosuch"))
                await fails(seen, "no group", admin.groups.lag("nosuch"))
                for address in (server.broker,):
                    seen.add("broker config", await admin.brokers.config(address))
                    seen.add("broker runtime", await admin.brokers.runtime(address))
            async with Peer(server.broker) as peer:
                signed = {"AccessKey": "a", "SecurityToken": CANARY, "Signature": CANARY, "secretKey": CANARY}
                for code in (RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, RequestCode.SEND_MESSAGE_V2, 9_999, 105, 200):
                    answer = await peer.ask(int(code), {**signed, "accessKey": "a", "queueId": "many"}, b"{broken")
                    seen.add(f"answer to {int(code)}", answer.code, answer.remark, answer.body)
            async with Peer(server.nameserver) as peer:
                for code in (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.REGISTER_BROKER, 9_999):
                    answer = await peer.ask(int(code), signed, b"{broken")
                    seen.add(f"name server's answer to {int(code)}", answer.code, answer.remark, answer.body)
        await server.stop()
        seen.add("server log", server.log)
    settings = ClientSettings(nameservers=("127.0.0.1:1",), credentials=CREDENTIALS)
    seen.add("settings", settings)
    async with aio.Producer(group="g", client_settings=settings) as producer:
        await fails(seen, "nobody there", producer.send(Message("t", CANARY.encode()), timeout_ms=200))
    seen.add("client log", caplog.text)
    seen.check()


async def test_passwords_in_urls_are_hidden(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seen = Seen()
    for given in ((PASSWORD_URL,), (PASSWORD_URL, "127.0.0.1:1")):
        with pytest.raises(ConfigError, match="holds a user or password") as caught:
            ClientSettings(nameservers=given)
        seen.add("address server", caught.value)
    for url in (
        f"postgresql://u:{CANARY}@127.0.0.1:1/x",
        f"nonsense://u:{CANARY}@h/x",
        f"postgresql+no://u:{CANARY}@h",
    ):
        try:
            outbox = Outbox(url)
            seen.add("outbox", outbox, outbox.database)
            outbox.create()
        except ConfigError as error:
            seen.add(url.partition(":")[0], error)
        except Exception as error:  # the driver's: no server there
            seen.add("driver", error)
    seen.add("client log", caplog.text)
    seen.check()


def test_the_command_line_hides_them() -> None:
    seen = Seen()
    environment = {**os.environ, "PYROMQ_NAMESERVER": PASSWORD_URL}
    for words in (["topic", "list"], ["doctor"], ["send", "t", "x"]):
        command = [sys.executable, "-m", "pyromq", *words]
        ended = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
        )
        seen.add(" ".join(words), ended.stdout, ended.stderr)
        assert ended.returncode != 0
    seen.check()
