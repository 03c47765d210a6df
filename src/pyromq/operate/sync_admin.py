"""Administration for code without asyncio: each method is that of ``operate.admin``, run on the process's loop thread.

    with Admin("10.0.0.1:9876") as admin:
        admin.topics.create("orders", queues=8)
        lag = admin.groups.lag("billing")

A test compares these classes with the asyncio ones, method by method.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, overload

from pyromq.client.core.options import ClientOptions
from pyromq.client.sync.faces import Client, LoopFace, inner_client
from pyromq.operate import admin as aio_admin
from pyromq.operate.access import AccessFacet
from pyromq.operate.audit import AuditFacet
from pyromq.operate.brokers import BrokerFacet, NameServerFacet
from pyromq.operate.consumers.members import MemberFacet
from pyromq.operate.contents import ContentFacet
from pyromq.operate.dead_letters import DeadLetterFacet
from pyromq.operate.delays import DelayFacet
from pyromq.operate.groups import GroupFacet
from pyromq.operate.health import HealthFacet
from pyromq.operate.messages import MessageFacet
from pyromq.operate.offsets import OffsetFacet
from pyromq.operate.reading.cluster_search import SearchFacet
from pyromq.operate.reading.topic_schemas import SchemaFacet
from pyromq.operate.replication import ReplicationFacet
from pyromq.operate.stores import StoreFacet
from pyromq.operate.topics import TopicFacet
from pyromq.operate.transactions import TransactionFacet

FacetT = TypeVar("FacetT")
FacetT_co = TypeVar("FacetT_co", covariant=True)  # a method of a base class is one of the class itself
FaceT = TypeVar("FaceT", bound="FacetFace[Any]")
P = ParamSpec("P")
T = TypeVar("T")


class FacetFace(Generic[FacetT_co]):
    """A facet of a sync Admin."""

    def __init__(self, face: LoopFace, inner: FacetT_co) -> None:
        self.face = face
        self.inner = inner  # touch it on the loop's thread only


def waiting(
    method: Callable[Concatenate[FacetT, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[FacetFace[FacetT], P], T]:
    """Make the sync form of a method of a facet."""

    @wraps(method)
    def call(self: FacetFace[FacetT], /, *arguments: P.args, **named: P.kwargs) -> T:
        return self.face._run(method(self.inner, *arguments, **named))

    return call


class SyncFacet(Generic[FaceT]):
    """Gives a sync Admin one of its facets, made at the first use."""

    def __init__(self, kind: type[FaceT]) -> None:
        self._kind = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, admin: None, owner: type) -> type[FaceT]: ...

    @overload
    def __get__(self, admin: LoopFace, owner: type) -> FaceT: ...

    def __get__(self, admin: LoopFace | None, owner: type) -> FaceT | type[FaceT]:
        if admin is None:
            return self._kind
        made = self._kind(admin, getattr(admin.inner, self._name))
        vars(admin)[self._name] = made
        return made


class SyncAccess(FacetFace[AccessFacet]):
    """``admin.access``."""

    users = waiting(AccessFacet.users)
    user = waiting(AccessFacet.user)
    create_user = waiting(AccessFacet.create_user)
    update_user = waiting(AccessFacet.update_user)
    delete_user = waiting(AccessFacet.delete_user)
    policies = waiting(AccessFacet.policies)
    set_policy = waiting(AccessFacet.set_policy)
    apply_template = waiting(AccessFacet.apply_template)
    delete_policy = waiting(AccessFacet.delete_policy)
    explain = waiting(AccessFacet.explain)
    import_accounts = waiting(AccessFacet.import_accounts)


class SyncAudit(FacetFace[AuditFacet]):
    """``admin.audit``."""

    list = waiting(AuditFacet.list)


class SyncBrokers(FacetFace[BrokerFacet]):
    """``admin.brokers``."""

    list = waiting(BrokerFacet.list)
    cluster = waiting(BrokerFacet.cluster)
    config = waiting(BrokerFacet.config)
    update_config = waiting(BrokerFacet.update_config)
    runtime = waiting(BrokerFacet.runtime)
    stats = waiting(BrokerFacet.stats)
    progress = waiting(BrokerFacet.progress)
    wipe_write_permission = waiting(BrokerFacet.wipe_write_permission)
    add_write_permission = waiting(BrokerFacet.add_write_permission)
    clean_expired_queues = waiting(BrokerFacet.clean_expired_queues)
    delete_expired_log = waiting(BrokerFacet.delete_expired_log)
    clean_unused_topics = waiting(BrokerFacet.clean_unused_topics)


class SyncNameServers(FacetFace[NameServerFacet]):
    """``admin.nameservers``."""

    config = waiting(NameServerFacet.config)
    update_config = waiting(NameServerFacet.update_config)
    kv = waiting(NameServerFacet.kv)
    put_kv = waiting(NameServerFacet.put_kv)
    delete_kv = waiting(NameServerFacet.delete_kv)


class SyncSchemas(FacetFace[SchemaFacet]):
    """``admin.schemas``."""

    versions = waiting(SchemaFacet.versions)
    get = waiting(SchemaFacet.get)
    check = waiting(SchemaFacet.check)
    set = waiting(SchemaFacet.set)
    delete = waiting(SchemaFacet.delete)


class SyncDeadLetters(FacetFace[DeadLetterFacet]):
    """``admin.dead_letters``."""

    list = waiting(DeadLetterFacet.list)
    count = waiting(DeadLetterFacet.count)
    was_redriven = waiting(DeadLetterFacet.was_redriven)
    get = waiting(DeadLetterFacet.get)
    redrive_one = waiting(DeadLetterFacet.redrive_one)
    by_error = waiting(DeadLetterFacet.by_error)
    retries_by_error = waiting(DeadLetterFacet.retries_by_error)
    redrive = waiting(DeadLetterFacet.redrive)
    queues = waiting(DeadLetterFacet.queues)


class SyncDelays(FacetFace[DelayFacet]):
    """``admin.delays``."""

    list = waiting(DelayFacet.list)
    recall = waiting(DelayFacet.recall)
    cancel = waiting(DelayFacet.cancel)
    find = waiting(DelayFacet.find)
    count_retries = waiting(DelayFacet.count_retries)
    levels_ms = waiting(DelayFacet.levels_ms)
    offsets = waiting(DelayFacet.offsets)


class SyncGroups(FacetFace[GroupFacet]):
    """``admin.groups``."""

    list = waiting(GroupFacet.list)
    names = waiting(GroupFacet.names)
    create = waiting(GroupFacet.create)
    delete = waiting(GroupFacet.delete)
    require = waiting(GroupFacet.require)
    config = waiting(GroupFacet.config)
    describe = waiting(GroupFacet.describe)
    lag = waiting(GroupFacet.lag)
    plan_park = waiting(GroupFacet.plan_park)
    park = waiting(GroupFacet.park)
    pause = waiting(GroupFacet.pause)
    resume = waiting(GroupFacet.resume)


class SyncHealth(FacetFace[HealthFacet]):
    """``admin.health``."""

    findings = waiting(HealthFacet.findings)


class SyncMembers(FacetFace[MemberFacet]):
    """``admin.members``."""

    connections = waiting(MemberFacet.connections)
    connections_if_any = waiting(MemberFacet.connections_if_any)
    states = waiting(MemberFacet.states)
    stack = waiting(MemberFacet.stack)
    running_info = waiting(MemberFacet.running_info)
    consume_directly = waiting(MemberFacet.consume_directly)
    producers = waiting(MemberFacet.producers)
    producers_of = waiting(MemberFacet.producers_of)


class SyncMessages(FacetFace[MessageFacet]):
    """``admin.messages``."""

    get = waiting(MessageFacet.get)
    by_offset_id = waiting(MessageFacet.by_offset_id)
    by_unique_key = waiting(MessageFacet.by_unique_key)
    find = waiting(MessageFacet.find)
    at = waiting(MessageFacet.at)
    read = waiting(MessageFacet.read)
    newest = waiting(MessageFacet.newest)
    copies = waiting(MessageFacet.copies)
    search = waiting(MessageFacet.search)
    tail = waiting(MessageFacet.tail)
    resend = waiting(MessageFacet.resend)
    trace = waiting(MessageFacet.trace)
    explain = waiting(MessageFacet.explain)


class SyncOffsets(FacetFace[OffsetFacet]):
    """``admin.offsets``."""

    range = waiting(OffsetFacet.range)
    ends = waiting(OffsetFacet.ends)
    at = waiting(OffsetFacet.at)
    progress = waiting(OffsetFacet.progress)
    committed = waiting(OffsetFacet.committed)
    commit = waiting(OffsetFacet.commit)
    clone = waiting(OffsetFacet.clone)
    reset = waiting(OffsetFacet.reset)
    carry_out = waiting(OffsetFacet.carry_out)
    plan_reset = waiting(OffsetFacet.plan_reset)
    plan_shift = waiting(OffsetFacet.plan_shift)
    plan_copy = waiting(OffsetFacet.plan_copy)


class SyncReplication(FacetFace[ReplicationFacet]):
    """``admin.replication``."""

    list = waiting(ReplicationFacet.list)
    state = waiting(ReplicationFacet.state)
    status = waiting(ReplicationFacet.status)


class SyncStores(FacetFace[StoreFacet]):
    """``admin.stores``."""

    facts = waiting(StoreFacet.facts)
    retention = waiting(StoreFacet.retention)
    queue_entries = waiting(StoreFacet.queue_entries)


class SyncContents(FacetFace[ContentFacet]):
    """``admin.contents``."""

    history = waiting(ContentFacet.history)
    senders = waiting(ContentFacet.senders)
    retention = waiting(ContentFacet.retention)
    letters = waiting(ContentFacet.letters)


class SyncTopics(FacetFace[TopicFacet]):
    """``admin.topics``."""

    list = waiting(TopicFacet.list)
    names = waiting(TopicFacet.names)
    kinds = waiting(TopicFacet.kinds)
    route = waiting(TopicFacet.route)
    create = waiting(TopicFacet.create)
    delete = waiting(TopicFacet.delete)
    set_permission = waiting(TopicFacet.set_permission)
    config = waiting(TopicFacet.config)
    stats = waiting(TopicFacet.stats)
    traffic = waiting(TopicFacet.traffic)
    groups = waiting(TopicFacet.groups)
    schemas = waiting(TopicFacet.schemas)


class SyncSearch(FacetFace[SearchFacet]):
    """``admin.search``."""

    find = waiting(SearchFacet.find)


class SyncTransactions(FacetFace[TransactionFacet]):
    """``admin.transactions``."""

    list = waiting(TransactionFacet.list)


class Admin(LoopFace):
    """Topics, groups, messages, brokers and more, a facet each: ``pyromq.aio.Admin`` for code without asyncio.

    ``client`` is shared with producers and consumers; without one it has its own. Options: ``ClientOptions``. The
    constructor raises ConfigError; methods of facets raise TransportError when a server cannot be reached, BrokerError
    when it refuses, WrongServerError when the name server's address is that of a broker.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        client: Client | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(aio_admin.Admin(nameservers, client=inner_client(client), **options))

    inner: aio_admin.Admin
    access = SyncFacet(SyncAccess)
    audit = SyncFacet(SyncAudit)
    brokers = SyncFacet(SyncBrokers)
    nameservers = SyncFacet(SyncNameServers)
    dead_letters = SyncFacet(SyncDeadLetters)
    delays = SyncFacet(SyncDelays)
    groups = SyncFacet(SyncGroups)
    health = SyncFacet(SyncHealth)
    members = SyncFacet(SyncMembers)
    messages = SyncFacet(SyncMessages)
    offsets = SyncFacet(SyncOffsets)
    replication = SyncFacet(SyncReplication)
    schemas = SyncFacet(SyncSchemas)
    search = SyncFacet(SyncSearch)
    stores = SyncFacet(SyncStores)
    contents = SyncFacet(SyncContents)
    topics = SyncFacet(SyncTopics)
    transactions = SyncFacet(SyncTransactions)
