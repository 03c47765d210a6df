"""The table of mqadmin's sub-commands, and what is said about those that are not here."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Final

import click

from pyromq.cli.declared import Argument, LazyCommands, Place

_HERE: Final = "pyromq.cli.mqadmin."
_TOPICS, _GROUPS, _MESSAGES = _HERE + "topics", _HERE + "groups", _HERE + "messages"
_BROKERS, _NAMES, _ACCESS = _HERE + "brokers", _HERE + "nameservers", _HERE + "access"

PLACES: Final = {
    "updateTopic": Place(_TOPICS, "update_topic", "Update or create topic."),
    "deleteTopic": Place(_TOPICS, "delete_topic", "Delete topic from broker and NameServer."),
    "updateSubGroup": Place(_GROUPS, "update_sub_group", "Update or create subscription group."),
    "deleteSubGroup": Place(_GROUPS, "delete_sub_group", "Delete subscription group from broker."),
    "updateBrokerConfig": Place(_BROKERS, "update_broker_config", "Update broker's config."),
    "updateTopicPerm": Place(_TOPICS, "update_topic_perm", "Update topic perm."),
    "topicRoute": Place(_TOPICS, "topic_route", "Examine topic route info."),
    "topicStatus": Place(_TOPICS, "topic_status", "Examine topic Status info."),
    "topicClusterList": Place(_TOPICS, "topic_cluster_list", "Get cluster info for topic."),
    "brokerStatus": Place(_BROKERS, "broker_status", "Fetch broker runtime status data."),
    "queryMsgById": Place(_MESSAGES, "query_msg_by_id", "Query Message by Id."),
    "queryMsgByKey": Place(_MESSAGES, "query_msg_by_key", "Query Message by Key."),
    "queryMsgByUniqueKey": Place(_MESSAGES, "query_msg_by_unique_key", "Query Message by Unique key."),
    "queryMsgByOffset": Place(_MESSAGES, "query_msg_by_offset", "Query Message by offset."),
    "queryMsgTraceById": Place(_MESSAGES, "query_msg_trace_by_id", "Query a message trace."),
    "printMsg": Place(_MESSAGES, "print_msg", "Print Message Detail."),
    "printMsgByQueue": Place(_MESSAGES, "print_msg_by_queue", "Print Message Detail by queueId."),
    "brokerConsumeStats": Place(_BROKERS, "broker_consume_stats", "Fetch broker consume stats data."),
    "producerConnection": Place(
        _GROUPS, "producer_connection", "Query producer's socket connection and client version."
    ),
    "consumerConnection": Place(
        _GROUPS, "consumer_connection", "Query consumer's socket connection, client version and subscription."
    ),
    "consumerProgress": Place(_GROUPS, "consumer_progress", "Query consumer's progress, speed."),
    "consumerStatus": Place(_GROUPS, "consumer_status", "Query consumer's internal data structure."),
    "cloneGroupOffset": Place(_GROUPS, "clone_group_offset", "Clone offset from other group."),
    "producer": Place(_GROUPS, "producer", "Query producer's instances, connection, status, etc."),
    "clusterList": Place(_BROKERS, "cluster_list", "List cluster infos."),
    "topicList": Place(_TOPICS, "topic_list", "Fetch all topic list from name server."),
    "updateKvConfig": Place(_NAMES, "update_kv_config", "Create or update KV config."),
    "deleteKvConfig": Place(_NAMES, "delete_kv_config", "Delete KV config."),
    "wipeWritePerm": Place(
        _NAMES, "wipe_write_perm", "Wipe write perm of broker in all name server you defined in the -n param."
    ),
    "addWritePerm": Place(
        _NAMES, "add_write_perm", "Add write perm of broker in all name server you defined in the -n param."
    ),
    "resetOffsetByTime": Place(
        _GROUPS, "reset_offset_by_time", "Reset consumer offset by timestamp(without client restart)."
    ),
    "skipAccumulatedMessage": Place(
        _GROUPS, "skip_accumulated_message", "Skip all messages that are accumulated (not consumed) currently."
    ),
    "haStatus": Place(_BROKERS, "ha_status", "Fetch ha runtime status data."),
    "cleanExpiredCQ": Place(_BROKERS, "clean_expired_cq", "Clean expired ConsumeQueue on broker."),
    "deleteExpiredCommitLog": Place(_BROKERS, "delete_expired_commit_log", "Delete expired CommitLog files."),
    "cleanUnusedTopic": Place(_BROKERS, "clean_unused_topic", "Clean unused topic on broker."),
    "statsAll": Place(_TOPICS, "stats_all", "Topic and Consumer tps stats."),
    "allocateMQ": Place(_TOPICS, "allocate_mq", "Allocate MQ."),
    "checkMsgSendRT": Place(_MESSAGES, "check_msg_send_rt", "Check message send response time."),
    "getNamesrvConfig": Place(_NAMES, "get_namesrv_config", "Get configs of name server."),
    "updateNamesrvConfig": Place(_NAMES, "update_namesrv_config", "Update configs of name server."),
    "getBrokerConfig": Place(_BROKERS, "get_broker_config", "Get broker config by cluster or special broker."),
    "getConsumerConfig": Place(_GROUPS, "get_consumer_config", "Get consumer config by subscription group name."),
    "queryCq": Place(_MESSAGES, "query_cq", "Query cq command."),
    "sendMessage": Place(_MESSAGES, "send_message", "Send a message."),
    "consumeMessage": Place(_MESSAGES, "consume_message", "Consume message; no group moves by it."),
    "createUser": Place(_ACCESS, "create_user", "Create user to cluster."),
    "updateUser": Place(_ACCESS, "update_user", "Update user to cluster."),
    "deleteUser": Place(_ACCESS, "delete_user", "Delete user from cluster."),
    "getUser": Place(_ACCESS, "get_user", "Get user from cluster."),
    "listUser": Place(_ACCESS, "list_user", "List user from cluster."),
    "createAcl": Place(_ACCESS, "create_acl", "Create acl to cluster."),
    "updateAcl": Place(_ACCESS, "update_acl", "Update acl to cluster; entries with the same resource are replaced."),
    "deleteAcl": Place(_ACCESS, "delete_acl", "Delete acl from cluster."),
    "getAcl": Place(_ACCESS, "get_acl", "Get acl from cluster."),
    "listAcl": Place(_ACCESS, "list_acl", "List acl from cluster."),
    "help": Place(_HERE + "commands", "show_help", "Show help of a sub-command."),
}

NOT_HERE: Final = {
    "updateTopicList": "pyromq topic create, once for each topic",
    "updateSubGroupList": "pyromq group create, once for each group",
    "setConsumeMode": "",
    "updateOrderConf": "pyromq mqadmin updateTopic -o true",
    "updateStaticTopic": "",
    "remappingStaticTopic": "",
    "sendMsgStatus": "pyromq mqadmin checkMsgSendRT",
    "clusterRT": "pyromq mqadmin checkMsgSendRT",
    "startMonitoring": "pyromq top, or pyromq doctor",
    "exportMetadata": "pyromq topic ls --all -o json, and pyromq group ls --all -o json",
    "exportConfigs": "pyromq mqadmin getBrokerConfig",
    "exportMetrics": "pyromq cluster ls -o json",
    "copyUser": "pyromq acl user create: users are kept by all servers",
    "copyAcl": "pyromq acl policy set: policies are kept by all servers",
    "queryConsumeQueue": "pyromq mqadmin queryCq",
    "exportMetadataInRocksDB": "",
    "exportPopRecord": "",
    "rocksDBConfigToJson": "",
    "checkRocksdbCqWriteProgress": "",
    "addBroker": "",
    "removeBroker": "",
    "resetMasterFlushOffset": "",
    "getSyncStateSet": "pyromq cluster replication",
    "getBrokerEpoch": "",
    "getControllerMetaData": "",
    "getControllerConfig": "",
    "updateControllerConfig": "",
    "electMaster": "",
    "cleanBrokerMetadata": "",
    "dumpCompactionLog": "",
    "getColdDataFlowCtrInfo": "",
    "updateColdDataFlowCtrGroupConfig": "",
    "removeColdDataFlowCtrGroupConfig": "",
    "setCommitLogReadAheadMode": "",
    "switchTimerEngine": "",
    "getBrokerLiteInfo": "",
    "getParentTopicInfo": "",
    "getLiteTopicInfo": "",
    "getLiteClientInfo": "",
    "getLiteGroupInfo": "",
    "triggerLiteDispatch": "",
}
"""Sub-commands of mqadmin 5.5.0 that are not here, and what to use instead where there is something."""


class MqadminCommands(LazyCommands):
    """Says what else there is when a sub-command is not here."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.places and not args[0].startswith("-"):
            raise click.UsageError(advice_for(args[0]), ctx=ctx)
        return super().resolve_command(ctx, args)


def advice_for(name: str) -> str:
    """Why there is no such sub-command, and what is nearest to it."""
    if name in NOT_HERE:
        instead = NOT_HERE[name]
        return f"mqadmin's {name} is not supported" + (f": use {instead}" if instead else ", and nothing replaces it")
    by_lower = {known.lower(): known for known in PLACES}
    near = get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(by_lower[each] for each in near)}?" if near else "; see pyromq mqadmin --help"
    return f"mqadmin has no sub-command {name}{hint}"


app = MqadminCommands("mqadmin", help="RocketMQ's mqadmin: its sub-commands and options.", places=PLACES)
app.context_settings = {"help_option_names": ["-h", "--help"]}


def show_help(
    context: click.Context,
    name: Annotated[str, Argument(metavar="COMMAND", help="Sub-command; none: all of them.")] = "",
) -> None:
    """Show help of a sub-command."""
    parent = context.parent
    assert parent is not None
    if not name:
        click.echo(app.get_help(parent))
        return
    if name not in PLACES:
        raise click.UsageError(advice_for(name), ctx=parent)
    command = app.get_command(parent, name)
    assert command is not None
    click.echo(command.get_help(click.Context(command, parent=parent, info_name=name)))
