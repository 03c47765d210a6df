"""Client ids of others: who claims one gets nothing that is meant for its owner, and replies need a right."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import Command, encode_response
from tests.hostile.rig import ACCESS_CONTROL, ROOT, Peer, Victim, beside_honest_client, count, signed, victim

pytestmark = pytest.mark.integration

Record = Callable[[str, object], None]
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
ALICE, MALLORY = ("alice", "alice-secret"), ("mallory", "mallory-secret")
CLAIMS = count(50, 5_000)


class Client(Peer):
    """A raw client that signs if it has a name, answers what is pushed to it, and notes it."""

    def __init__(self, address: str, *credentials: str) -> None:
        super().__init__(address)
        self.credentials = credentials
        self.pushed: list[Command] = []

    async def call(self, code: Code, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        fields = signed(ext or {}, body, *self.credentials) if self.credentials else ext or {}
        number = self.send(code, fields, body)
        while True:
            command = await self.receive()
            if command.is_response and command.correlation_id == number:
                return command
            self.note(command)

    def note(self, command: Command) -> None:
        if not command.is_response and command.code != Code.NOTIFY_CONSUMER_IDS_CHANGED:
            self.pushed.append(command)
            self.writer.write(encode_response(0, command.correlation_id, body=b"{}"))

    async def serve(self) -> None:
        """Until it is cancelled."""
        while True:
            self.note(await self.receive(600))

    async def beat(self, client_id: str, *, producer: str = "", consumer: str = "") -> Command:
        subscription = {"topic": "honest", "subString": "*"}
        consumers = [{"groupName": consumer, "subscriptionDataSet": [subscription]}] if consumer else []
        producers = [{"groupName": producer}] if producer else []
        body = {"clientID": client_id, "producerDataSet": producers, "consumerDataSet": consumers}
        return await self.call(Code.HEART_BEAT, {}, json.dumps(body).encode())

    async def reply(self, client_id: str, topic: str = REPLY_TOPIC) -> Command:
        properties = f"CORRELATION_ID\x01id-1\x02REPLY_TO_CLIENT\x01{client_id}\x02MSG_TYPE\x01reply\x02"
        fields = {"a": "responders", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
        return await self.call(Code.SEND_REPLY_MESSAGE_V2, fields | {"i": properties, "j": "0", "k": "false"}, b"42")


@asynccontextmanager
async def serving(client: Client) -> AsyncIterator[None]:
    """What is pushed to the client is answered."""
    task = asyncio.create_task(client.serve())
    try:
        yield
    finally:
        task.cancel()


async def test_who_claims_a_client_id_gets_none_of_its_replies(tmp_path: Path, record_property: Record) -> None:
    async with victim(tmp_path) as server:
        what = "heartbeats that claim the client id of another one"
        async with (
            beside_honest_client(server, what, CLAIMS, record_property),
            Client(server.broker) as asker,
            Client(server.broker) as thief,
            Client(server.broker) as responder,
        ):
            assert (await thief.beat("thief", producer="thieves")).code == 0, "it was there first, under its own name"
            assert (await asker.beat("asker", producer="askers")).code == 0
            for _ in range(CLAIMS):
                await thief.beat("asker", producer="thieves")
            async with serving(asker), serving(thief):
                assert (await responder.reply("asker")).code == 0
            assert [each.code for each in asker.pushed] == [Code.PUSH_REPLY_MESSAGE_TO_CLIENT]
            assert thief.pushed == []
            asker.writer.transport.abort()
            await asyncio.sleep(0.1)  # the server sees that it is gone
            async with serving(thief):
                assert (await responder.reply("asker")).code == 0, "who is left has it: a client that came back"


async def test_who_claims_the_client_id_of_a_consumer_is_not_asked_in_its_place(tmp_path: Path) -> None:
    async with (
        victim(tmp_path) as server,
        Client(server.broker) as member,
        Client(server.broker) as thief,
        Client(server.broker) as tool,
    ):
        for client, client_id in ((thief, "reader-0"), (member, "reader-1"), (thief, "reader-1")):
            assert (await client.beat(client_id, consumer="readers")).code == 0
        async with serving(member), serving(thief):
            fields = {"consumerGroup": "readers", "clientId": "reader-1"}
            assert (await tool.call(Code.GET_CONSUMER_RUNNING_INFO, fields)).code == 0
        assert len(member.pushed) == 1 and thief.pushed == []


async def users(server: Victim) -> None:
    """alice may ask and mallory send to a topic of its own."""
    async with Client(server.broker, *ROOT) as root:
        topic = {"topic": "mallorys", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1"}
        more = {"perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false"}
        assert (await root.call(Code.UPDATE_AND_CREATE_TOPIC, topic | more)).code == 0
        rights = {ALICE: [f"Topic:{REPLY_TOPIC}", "Topic:honest", "Group:readers"], MALLORY: ["Topic:mallorys"]}
        rights[MALLORY] += ["Topic:honest", "Group:readers"]  # a member of the same group, or it could not claim the id
        for (user, secret), resources in rights.items():
            body = json.dumps({"username": user, "password": secret, "userType": "Normal"}).encode()
            assert (await root.call(Code.AUTH_CREATE_USER, {"username": user}, body)).code == 0
            entries = [{"resource": each, "actions": ["Pub", "Sub"], "decision": "Allow"} for each in resources]
            policy = {"subject": f"User:{user}", "policies": [{"policyType": "Custom", "entries": entries}]}
            answer = await root.call(Code.AUTH_CREATE_ACL, {"subject": f"User:{user}"}, json.dumps(policy).encode())
            assert answer.code == 0, answer.remark


async def test_a_client_id_is_its_users_and_a_reply_needs_a_right(tmp_path: Path) -> None:
    async with victim(tmp_path, *ACCESS_CONTROL) as server:
        await users(server)
        async with (
            Client(server.broker, *ALICE) as asker,
            Client(server.broker, *ALICE) as again,
            Client(server.broker, *MALLORY) as thief,
        ):
            assert (await asker.beat("asker", producer="askers", consumer="readers")).code == 0
            for groups in ({"producer": "askers"}, {"producer": "others"}, {"consumer": "readers"}):
                refused = await thief.beat("asker", **groups)
                assert refused.code == ResponseCode.NO_PERMISSION and "another user" in (refused.remark or "")
            lock = {"consumerGroup": "readers", "clientId": "asker", "mqSet": []}
            for code in (Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ):
                refused = await thief.call(code, {}, json.dumps(lock).encode())
                assert refused.code == ResponseCode.NO_PERMISSION
            assert (await thief.beat("thief", consumer="readers")).code == 0, "under an id of its own it may"
            async with serving(asker):
                for topic in ("mallorys", REPLY_TOPIC):
                    refused = await thief.reply("asker", topic)
                    assert refused.code == ResponseCode.NO_PERMISSION, (topic, refused)
                assert (await again.reply("asker")).code == 0
            assert len(asker.pushed) == 1 and asker.pushed[0].body == b"42"
            assert (await again.beat("asker", producer="askers")).code == 0, "its own user, over a new connection"
            async with serving(again), serving(asker), Client(server.broker, *ALICE) as responder:
                assert (await responder.reply("asker")).code == 0
            assert (len(asker.pushed), len(again.pushed)) == (1, 1), "the newest connection of the user has it"
