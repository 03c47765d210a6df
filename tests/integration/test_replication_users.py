"""Users and policies at a replica: taken over from its master, given to nobody else, and there after a promotion."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.security import handover
from pyromq.security.policies import PolicyType, User, UserType, make_user, parse_policies
from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings
from pyromq.security.user_store import FILE_NAME, UserStore
from pyromq.store.files.disk import RealDisk
from pyromq.store.tables.owners import OwnerTable
from pyromq.testing import free_port
from pyromq.testing.loopback import SMALL_FILES
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.ext import header_to_ext
from pyromq.wire.json.access import AclInfo, PolicyEntryInfo, PolicyInfo
from tests.integration.guarded import CANARY, Client, ask_as, guarded_access, signed
from tests.integration.replication_pair import Pair, a_pair
from tests.integration.test_replication_metadata import PickyDisk, metadata_of
from tests.integration.waiting import until

pytestmark = pytest.mark.integration

ALICE = f"alice-{CANARY}"
POLICIES = AclInfo(
    subject="User:alice",
    policies=(
        PolicyInfo(
            policy_type="Custom",
            entries=(
                PolicyEntryInfo(resource="Topic:order*", actions=("Pub", "Sub"), decision="Allow"),
                PolicyEntryInfo(resource="Group:*", actions=("Sub",), source_ips=("10.0.0.0/8",), decision="Deny"),
            ),
        ),
        PolicyInfo(policy_type="Default", entries=(PolicyEntryInfo(resource="*", actions=("All",), decision="Deny"),)),
    ),
)


def book_of(broker: Broker) -> UserStore:
    assert isinstance(broker.access, GuardedAccess)
    return broker.access.guard.book


def user(name: str, type_: UserType = UserType.NORMAL) -> User:
    return make_user(name, Secret(f"{name}-{CANARY}"), type_)


async def a_guarded_pair(pair: Pair, **replica: object) -> tuple[Broker, Broker]:
    master = await pair.start_master(access=guarded_access())
    return master, await pair.start_replica(access=guarded_access(), **replica)


async def test_users_policies_and_owners_are_taken_over_and_there_after_a_promotion(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with a_pair(tmp_path) as pair:
        master, replica = await a_guarded_pair(pair)
        book_of(master).create_user(user("alice"))
        book_of(master).create_user(user("bob"))
        book_of(master).set_policies("alice", parse_policies(POLICIES))
        book_of(replica).create_user(user("planted"))
        await until(lambda: "planted" not in book_of(replica).rules.users, "the master's, and no others")
        await until(lambda: book_of(replica).text() == book_of(master).text(), "taken over")
        rules = book_of(replica).rules
        assert rules.policies == book_of(master).rules.policies and rules.users["alice"].password == Secret(ALICE)
        await pair.metadata_taken(3)
        versions = {broker.parts.replication.runtime()["replicationUsersVersion"] for broker in (master, replica)}
        assert len(versions) == 1
        assert book_of(replica).rules is rules, "what has not changed is not taken over again"
        book_of(master).delete_user("bob")
        await until(lambda: "bob" not in book_of(replica).rules.users, "deleted")
        assert not metadata_of(replica).troubles
        await pair.stop_master()
        await replica.change_role(Role.ASYNC_MASTER, 0)
        pair.master, pair.replica = replica, None
        kept = book_of(replica).rules
        assert set(kept.users) == {"root", "inner-broker", "alice"} and kept.policies["alice"][PolicyType.DEFAULT]
        async with Client(str(replica.address)) as peer:
            for secret, is_known in ((ALICE, True), ("wrong", False)):
                ext = signed({"topic": "orders"}, b"", "alice", secret)
                answer = await peer.ask(int(RequestCode.GET_TOPIC_CONFIG), ext)
                assert ("has no permission" in (answer.remark or "")) is is_known, "known, and without that right"
    assert CANARY not in caplog.text
    stored = tmp_path / "replica" / "config" / FILE_NAME
    assert ALICE in stored.read_text() and stored.stat().st_mode & 0o077 == 0


async def test_who_made_which_topic_is_taken_over(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        master, replica = await a_guarded_pair(pair)
        owners, here = master.parts.replication.owners, replica.parts.replication.owners
        owners.topics["orders"] = "alice"
        await until(lambda: here.topics == {"orders": "alice"}, "taken over")
        await pair.stop_replica()
        assert OwnerTable.load(RealDisk(), tmp_path / "replica").topics == {"orders": "alice"}, "and saved"


async def test_nobody_but_a_replica_gets_users(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        master = await pair.start_master(access=guarded_access())
        book_of(master).create_user(user("alice"))
        async with Client(str(master.address)) as peer:
            ext = header_to_ext(handover.ask(""))
            code = RequestCode.GET_ACCESS_TABLES
            for name in ("root", "alice"):
                response = await peer.ask(int(code), signed(ext, b"", name, CANARY if name == "root" else ALICE))
                assert response.code == ResponseCode.NO_PERMISSION and CANARY.encode() not in response.body
            response = await peer.ask(int(code), ext)
            assert response.code == ResponseCode.NO_PERMISSION and not response.body
            response = await ask_as(peer, "inner-broker", code, {**ext, "purpose": "something else"})
            assert response.code == ResponseCode.NO_PERMISSION and not response.body
            response = await ask_as(peer, "inner-broker", code, ext)
            assert response.code == ResponseCode.SUCCESS and ALICE.encode() in response.body


async def test_users_of_a_master_are_changed_at_the_master(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        _, replica = await a_guarded_pair(pair)
        await until(lambda: metadata_of(replica).has_masters_users, "taken over")
        async with Client(str(replica.address)) as peer:
            body = b'{"username":"eve","password":"x","userType":"Super"}'
            response = await ask_as(peer, "root", RequestCode.AUTH_CREATE_USER, {"username": "eve"}, body)
            assert response.code == ResponseCode.SYSTEM_ERROR and "master" in (response.remark or "")
            response = await ask_as(peer, "root", RequestCode.AUTH_LIST_USER, {})
            assert response.code == ResponseCode.SUCCESS, "looking is allowed"


async def test_a_replica_of_a_master_without_users_keeps_its_own(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.start_master()
        replica = await pair.start_replica(access=guarded_access())
        book_of(replica).create_user(user("alice"))
        await pair.metadata_taken()
        assert "alice" in book_of(replica).rules.users and not metadata_of(replica).troubles
        assert not metadata_of(replica).has_masters_users


async def test_a_master_with_other_inner_credentials_gives_nothing(tmp_path: Path) -> None:
    others = AccessSettings(
        enabled=True,
        initial_user=Secret(f'{{"username":"root","password":"{CANARY}"}}'),
        inner_credentials=Secret(f'{{"accessKey":"root","secretKey":"{CANARY}"}}'),
    )
    async with a_pair(tmp_path) as pair:
        master = await pair.start_master(access=guarded_access())
        replica = await pair.start_replica(access=others)
        book_of(master).create_user(user("alice"))
        await until(lambda: "replicas alone" in metadata_of(replica).troubles.get("users", ""), "it is told")
        assert "alice" not in book_of(replica).rules.users
        assert replica.parts.tables.topics.table.version == master.parts.tables.topics.table.version, "and nothing else"


async def test_users_that_could_not_be_saved_are_taken_over_by_the_next_round(tmp_path: Path) -> None:
    disk = PickyDisk("")
    async with a_pair(tmp_path) as pair:
        master, replica = await a_guarded_pair(pair, disk=disk)
        await until(lambda: metadata_of(replica).has_masters_users, "taken over")
        disk.name = FILE_NAME
        book_of(master).create_user(user("alice"))
        await until(lambda: "says no" in metadata_of(replica).troubles.get("users", ""), "not saved")
        assert "alice" not in book_of(replica).rules.users, "what is not on disk does not count"
        disk.name = ""
        await until(lambda: "alice" in book_of(replica).rules.users, "saved")


async def test_a_member_with_a_new_disk_sends_those_away_whom_it_may_know_later(tmp_path: Path) -> None:
    """It said that they have no right, which senders take for an answer."""
    replication = ReplicationSettings(role=Role.SYNC_MASTER, managed=True, port=free_port())
    settings = BrokerSettings(
        port=0, vip_port=False, store=SMALL_FILES, access=guarded_access(), replication=replication
    )
    async with Broker(settings, tmp_path) as broker, Client(str(broker.address)) as peer:
        response = await ask_as(peer, "alice", RequestCode.AUTH_LIST_USER, {})
        assert response.code == ResponseCode.SERVICE_NOT_AVAILABLE and "users of its master" in (response.remark or "")
        lease = broker.parts.replication.environment.lease
        assert lease is not None
        lease.promoted(1, 0)
        response = await ask_as(peer, "alice", RequestCode.AUTH_LIST_USER, {})
        assert response.code == ResponseCode.NO_PERMISSION
