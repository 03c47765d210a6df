"""Which function answers which request code.

Most return their response; those in ``deferred`` send it themselves, because they wait for the disk, for a message, or
for another process.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from pyromq.broker.admin.access_requests import AccessHandler
from pyromq.broker.admin.assignment_requests import AssignmentHandler
from pyromq.broker.admin.auditing import Auditing
from pyromq.broker.admin.cleaning_requests import CleaningHandler
from pyromq.broker.admin.client_relay import ClientRelay
from pyromq.broker.admin.client_requests import ClientHandler
from pyromq.broker.admin.config_requests import ConfigHandler
from pyromq.broker.admin.delay_requests import DelayHandler
from pyromq.broker.admin.group_requests import GroupHandler
from pyromq.broker.admin.lookup_requests import LookupHandler
from pyromq.broker.admin.member_requests import MemberHandler
from pyromq.broker.admin.member_tables import MemberTablesHandler
from pyromq.broker.admin.offset_requests import OffsetHandler
from pyromq.broker.admin.progress_requests import ProgressHandler
from pyromq.broker.admin.reset_requests import ResetHandler
from pyromq.broker.admin.runtime_requests import RuntimeHandler
from pyromq.broker.admin.store_requests import StoreHandler
from pyromq.broker.admin.topic_requests import TopicHandler
from pyromq.broker.base.responses import Deferred, Immediate
from pyromq.broker.delays.recall import RecallHandler
from pyromq.broker.dispatching.plan import Lanes
from pyromq.broker.popping.pop_requests import PopHandler
from pyromq.broker.pulling.pull import PullHandler
from pyromq.broker.pulling.queue_watches import WatchHandler
from pyromq.broker.sending.reply import ReplyHandler
from pyromq.broker.sending.send import SendHandler
from pyromq.broker.sending.send_back import SendBackHandler
from pyromq.broker.transactions.transactions import TransactionHandler
from pyromq.net.connection import Connection
from pyromq.net.handler import FastPath
from pyromq.security.requests import ACCESS_CODES
from pyromq.wire.codes import RequestCode as Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """Handlers of all requests."""

    sends: SendHandler
    transactions: TransactionHandler
    send_back: SendBackHandler
    replies: ReplyHandler
    pulls: PullHandler
    watches: WatchHandler
    pops: PopHandler
    clients: ClientHandler
    client_relay: ClientRelay
    assignments: AssignmentHandler
    offsets: OffsetHandler
    lookups: LookupHandler
    topics: TopicHandler
    groups: GroupHandler
    progress: ProgressHandler
    resets: ResetHandler
    config: ConfigHandler
    cleaning: CleaningHandler
    runtime: RuntimeHandler
    recalls: RecallHandler
    delays: DelayHandler
    access: AccessHandler
    auditing: Auditing
    store: StoreHandler
    members: MemberHandler
    member_tables: MemberTablesHandler

    # --- lanes ---

    def renew_lanes(self, lanes: Lanes, waiting: Container[Connection]) -> None:
        """Open or close each lane; nothing of a connection in ``waiting`` may be overtaken."""
        if self.pops.lane is not None:
            self.pops.lane.next_lane = self.pulls.lane
            self.pops.lane.renew(is_open=lanes.pops, waiting=waiting)
        if self.sends.lane is not None:
            self.sends.lane.next_lane = self.pops.lane or self.pulls.lane
            self.sends.lane.renew(is_open=lanes.sends, waiting=waiting)
        if self.pulls.lane is not None:
            self.pulls.lane.renew(is_open=lanes.pulls, waiting=waiting)

    def fast_path(self, connection: Connection) -> FastPath | None:
        """The lane that looks at the bytes of a connection first."""
        sends, others = self.sends.lane, self.pops.lane or self.pulls.lane
        if sends is not None and sends.serves(connection):
            return sends.take  # which hands others on
        return others.take if others is not None else None

    # --- handlers ---

    def deferred(self) -> dict[int, Deferred]:
        return {
            Code.SEND_MESSAGE: self.sends.send,
            Code.SEND_MESSAGE_V2: self.sends.send,
            Code.SEND_BATCH_MESSAGE: self.sends.send_batch,
            Code.CONSUMER_SEND_MSG_BACK: self.send_back.send_back,
            Code.END_TRANSACTION: self.transactions.end,
            Code.RESUME_CHECK_HALF_MESSAGE: self.transactions.resume,
            Code.SEND_REPLY_MESSAGE: self.replies.reply,
            Code.SEND_REPLY_MESSAGE_V2: self.replies.reply,
            Code.RECALL_MESSAGE: self.recalls.recall,
            Code.PULL_MESSAGE: self.pulls.pull,
            Code.LITE_PULL_MESSAGE: self.pulls.pull,
            Code.AWAIT_QUEUE_RANGES: self.watches.wait,
            Code.POP_MESSAGE: self.pops.pop,
            Code.ACK_MESSAGE: self.pops.ack,
            Code.BATCH_ACK_MESSAGE: self.pops.batch_ack,
            Code.CHANGE_MESSAGE_INVISIBLETIME: self.pops.change,
            Code.NOTIFICATION: self.pops.notify,
            Code.FORWARD_TO_DEAD_LETTERS: self.pops.forward,
            Code.GET_CONSUMER_RUNNING_INFO: self.client_relay.running_info,
            Code.CONSUME_MESSAGE_DIRECTLY: self.client_relay.consume_directly,
            Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.client_relay.status,
            Code.QUERY_ASSIGNMENT: self.assignments.assign,
            Code.REPORT_MEMBER: self.members.report,
        }

    def immediate(self) -> dict[int, Immediate]:
        return {**self._for_clients(), **self._for_tools(), **self._for_operators()}

    def _for_clients(self) -> dict[int, Immediate]:
        clients, offsets = self.clients, self.offsets
        return {
            Code.HEART_BEAT: clients.heartbeat,
            Code.UNREGISTER_CLIENT: clients.unregister,
            Code.GET_CONSUMER_LIST_BY_GROUP: clients.members_of,
            Code.LOCK_BATCH_MQ: clients.lock,
            Code.UNLOCK_BATCH_MQ: clients.unlock,
            Code.CHECK_CLIENT_CONFIG: clients.check_client,
            Code.QUERY_CONSUMER_OFFSET: offsets.query,
            Code.UPDATE_CONSUMER_OFFSET: offsets.update,
            Code.UPDATE_CONSUMER_OFFSETS: offsets.update_all,
            Code.QUERY_QUEUE_RANGES: self.watches.query,
            Code.SEARCH_OFFSET_BY_TIMESTAMP: offsets.search,
            Code.GET_MAX_OFFSET: offsets.maximum,
            Code.GET_MIN_OFFSET: offsets.minimum,
            Code.GET_EARLIEST_MSG_STORETIME: offsets.earliest,
            Code.POLLING_INFO: self.pops.polling_info,
            Code.QUERY_MESSAGE: self.lookups.query,
            Code.VIEW_MESSAGE_BY_ID: self.lookups.view,
        }

    def _for_tools(self) -> dict[int, Immediate]:
        topics, groups, progress = self.topics, self.groups, self.progress
        return {
            Code.UPDATE_AND_CREATE_TOPIC: topics.create,
            Code.UPDATE_AND_CREATE_TOPIC_LIST: topics.create_all,
            Code.DELETE_TOPIC_IN_BROKER: topics.delete,
            Code.GET_TOPIC_CONFIG: topics.get,
            Code.GET_ALL_TOPIC_CONFIG: topics.get_all,
            Code.GET_TOPIC_STATS_INFO: topics.stats,
            Code.QUERY_TOPIC_CONSUME_BY_WHO: topics.who_consumes,
            Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: topics.system_topics,
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: groups.update,
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: groups.update_all,
            Code.GET_SUBSCRIPTIONGROUP_CONFIG: groups.get,
            Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: groups.get_all,
            Code.DELETE_SUBSCRIPTIONGROUP: groups.delete,
            Code.UPDATE_AND_GET_GROUP_FORBIDDEN: groups.forbidden,
            Code.GET_CONSUMER_CONNECTION_LIST: groups.consumers,
            Code.GET_PRODUCER_CONNECTION_LIST: groups.producers,
            Code.GET_ALL_PRODUCER_INFO: groups.all_producers,
            Code.QUERY_SUBSCRIPTION_BY_CONSUMER: groups.subscription,
            Code.QUERY_TOPICS_BY_CONSUMER: groups.topics_of,
            Code.GET_CONSUME_STATS: progress.consume_stats,
            Code.GET_BROKER_CONSUME_STATS: progress.broker_stats,
            Code.QUERY_CONSUME_TIME_SPAN: progress.time_span,
            Code.QUERY_CORRECTION_OFFSET: progress.correction,
            Code.CLONE_GROUP_OFFSET: progress.clone,
            Code.INVOKE_BROKER_TO_RESET_OFFSET: self.resets.reset,
            Code.QUERY_CONSUME_QUEUE: self.lookups.entries,
            Code.SET_MESSAGE_REQUEST_MODE: self.assignments.set_mode,
            Code.GET_ALL_MESSAGE_REQUEST_MODE: self.assignments.modes,
        }

    def _for_operators(self) -> dict[int, Immediate]:
        runtime, cleaning = self.runtime, self.cleaning
        return {
            Code.UPDATE_BROKER_CONFIG: self.config.update,
            Code.GET_BROKER_CONFIG: self.config.get,
            Code.GET_BROKER_RUNTIME_INFO: runtime.runtime_info,
            Code.GET_ALL_CONSUMER_OFFSET: runtime.all_offsets,
            Code.GET_ALL_DELAY_OFFSET: self.delays.offsets,
            Code.GET_TIMER_CHECK_POINT: self.delays.timer_check,
            Code.GET_TIMER_METRICS: self.delays.timer_metrics,
            Code.VIEW_BROKER_STATS_DATA: runtime.stats_data,
            Code.GET_BROKER_HA_STATUS: runtime.replication,
            Code.CLEAN_EXPIRED_CONSUMEQUEUE: cleaning.clean_queues,
            Code.CLEAN_UNUSED_TOPIC: cleaning.clean_topics,
            Code.DELETE_EXPIRED_COMMITLOG: cleaning.delete_expired,
            Code.QUERY_AUDIT_LOG: self.auditing.find,
            Code.QUERY_STORE_FACTS: self.store.facts,
            Code.QUERY_PREPARED_CHECKS: self.store.checks,
            Code.QUERY_MEMBER: self.members.query,
            Code.QUERY_MEMBER_TABLES: self.member_tables.query,
            Code.GRANT_MEMBER: self.members.grant,
            Code.CONTROL_MEMBER: self.members.control,
            Code.GET_ACCESS_TABLES: self.access.hand_over,
            Code.GET_REPLICA_CHALLENGE: self.access.challenge,
            **dict.fromkeys(ACCESS_CODES, self.access.answer),
        }
