"""The table of mqadmin's sub-commands, and what is said about those that are not here."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from inspect import Parameter, signature
from typing import Annotated, Any, Final

import click

from pyromq.cli.connection import DEFAULT_NAMESERVER, with_admin
from pyromq.cli.declared import Argument, LazyCommands, Place, command_of
from pyromq.cli.mqadmin.options import NamesrvOption
from pyromq.cli.option_records import unfolded

_HERE: Final = "pyromq.cli.mqadmin."

_ROWS: Final = """
updateTopic              topics       Update or create topic.
deleteTopic              topics       Delete topic from broker and NameServer.
updateSubGroup           groups       Update or create subscription group.
deleteSubGroup           groups       Delete subscription group from broker.
updateBrokerConfig       brokers      Update broker's config.
updateTopicPerm          topics       Update topic perm.
topicRoute               topics       Examine topic route info.
topicStatus              topics       Examine topic Status info.
topicClusterList         topics       Get cluster info for topic.
brokerStatus             brokers      Fetch broker runtime status data.
queryMsgById             messages     Query Message by Id.
queryMsgByKey            messages     Query Message by Key.
queryMsgByUniqueKey      messages     Query Message by Unique key.
queryMsgByOffset         messages     Query Message by offset.
queryMsgTraceById        messages     Query a message trace.
printMsg                 messages     Print Message Detail.
printMsgByQueue          messages     Print Message Detail by queueId.
brokerConsumeStats       brokers      Fetch broker consume stats data.
producerConnection       groups       Query producer's socket connection and client version.
consumerConnection       groups       Query consumer's socket connection, client version and subscription.
consumerProgress         groups       Query consumer's progress, speed.
consumerStatus           groups       Query consumer's internal data structure.
cloneGroupOffset         groups       Clone offset from other group.
producer                 groups       Query producer's instances, connection, status, etc.
clusterList              brokers      List cluster infos.
topicList                topics       Fetch all topic list from name server.
updateKvConfig           nameservers  Create or update KV config.
deleteKvConfig           nameservers  Delete KV config.
wipeWritePerm            nameservers  Wipe write perm of broker in all name server you defined in the -n param.
addWritePerm             nameservers  Add write perm of broker in all name server you defined in the -n param.
resetOffsetByTime        groups       Reset consumer offset by timestamp(without client restart).
skipAccumulatedMessage   groups       Skip all messages that are accumulated (not consumed) currently.
haStatus                 brokers      Fetch ha runtime status data.
cleanExpiredCQ           brokers      Clean expired ConsumeQueue on broker.
deleteExpiredCommitLog   brokers      Delete expired CommitLog files.
cleanUnusedTopic         brokers      Clean unused topic on broker.
statsAll                 topics       Topic and Consumer tps stats.
allocateMQ               topics       Allocate MQ.
checkMsgSendRT           messages     Check message send response time.
getNamesrvConfig         nameservers  Get configs of name server.
updateNamesrvConfig      nameservers  Update configs of name server.
getBrokerConfig          brokers      Get broker config by cluster or special broker.
getConsumerConfig        groups       Get consumer config by subscription group name.
queryCq                  messages     Query cq command.
sendMessage              messages     Send a message.
consumeMessage           messages     Consume message; no group moves by it.
createUser               access       Create user to cluster.
updateUser               access       Update user to cluster.
deleteUser               access       Delete user from cluster.
getUser                  access       Get user from cluster.
listUser                 access       List user from cluster.
createAcl                access       Create acl to cluster.
updateAcl                access       Update acl to cluster; entries with the same resource are replaced.
deleteAcl                access       Delete acl from cluster.
getAcl                   access       Get acl from cluster.
listAcl                  access       List acl from cluster.
help                     commands     Show help of a sub-command.
"""
"""A sub-command in each line: its name, the module that has its function, its help."""


def _places() -> dict[str, Place]:
    """The functions are named as the sub-commands, in Python's way: ``updateTopic`` is ``update_topic``."""
    found = {}
    for name, module, text in (line.split(maxsplit=2) for line in _ROWS.strip().splitlines()):
        function = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower() if name != "help" else "show_help"
        found[name] = Place(_HERE + module, function, text)
    return found


PLACES: Final = _places()

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
    """Connects functions that take an ``admin``; says what else there is when a sub-command is not here."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self.places.get(cmd_name)
        if place is not None and cmd_name not in self.commands:
            function = getattr(import_module(place.module), place.name)
            if "admin" in signature(function).parameters:
                self.add_command(command_of(_connected(function), cmd_name), cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.places and not args[0].startswith("-"):
            raise click.UsageError(advice_for(args[0]), ctx=ctx)
        return super().resolve_command(ctx, args)


def _connected(work: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """The command of a function that takes an ``admin``: it has an option for name servers instead of it."""
    work.__annotations__.pop("admin", None)  # a type that is not imported for help
    unfolded_work = unfolded(work)
    own = signature(unfolded_work, eval_str=True)
    namesrv = Parameter("namesrv", Parameter.KEYWORD_ONLY, default=DEFAULT_NAMESERVER, annotation=NamesrvOption)
    others = [each for each in own.parameters.values() if each.name != "admin"]

    @wraps(unfolded_work)
    def command(namesrv: str, **given: Any) -> None:
        with_admin(namesrv, lambda admin: unfolded_work(admin=admin, **given))

    command.__signature__ = own.replace(parameters=[*others, namesrv])  # type: ignore[attr-defined]
    return command


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
