# ruff: noqa: E501, a line for each sub-command
"""Letters and long names of options are mqadmin's: this table is what ``mqadmin help`` of 5.5.0 prints."""

from __future__ import annotations

import click
import pytest

from pyromq.cli.mqadmin.commands import PLACES, app

OPTIONS = {
    "updateTopic": "-a --attributes, -b --brokerAddr, -c --clusterName, -o --order, -p --perm, -r --readQueueNums, -s --hasUnitSub, -t --topic, -u --unit, -w --writeQueueNums",
    "deleteTopic": "-c --clusterName, -t --topic",
    "topicList": "-c --clusterModel",
    "topicRoute": "-l --list, -t --topic",
    "topicStatus": "-c --cluster, -t --topic",
    "topicClusterList": "-t --topic",
    "clusterList": "-c --clusterName, -i --interval, -m --moreStats",
    "brokerStatus": "-b --brokerAddr, -c --clusterName",
    "haStatus": "-b --brokerAddr, -c --clusterName, -i --interval",
    "brokerConsumeStats": "-b --brokerAddr, -l --level, -o --order, -t --timeoutMillis",
    "consumerProgress": "-c --cluster, -g --groupName, -s --showClientIP, -t --topicName",
    "consumerStatus": "-b --brokerAddr, -g --consumerGroup, -i --clientId, -s --jstack",
    "consumerConnection": "-b --brokerAddr, -g --consumerGroup",
    "producerConnection": "-g --producerGroup, -t --topic",
    "producer": "-b --broker",
    "updateSubGroup": "-a --notifyConsumerIdsChanged, --attributes, -b --brokerAddr, -c --clusterName, -d --consumeBroadcastEnable, -g --groupName, -i --brokerId, -m --consumeFromMinEnable, -o --consumeMessageOrderly, -p --groupRetryPolicy, -q --retryQueueNums, -r --retryMaxTimes, -s --consumeEnable, -w --whichBrokerWhenConsumeSlowly",
    "deleteSubGroup": "-b --brokerAddr, -c --clusterName, -g --groupName, -r --removeOffset",
    "resetOffsetByTime": "-b --broker, -c --cluster, -f --force, -g --group, -o --offset, -q --queue, -s --timestamp, -t --topic",
    "skipAccumulatedMessage": "-c --cluster, -f --force, -g --group, -t --topic",
    "queryMsgById": "-c --cluster, -d --clientId, -f --bodyFormat, -g --consumerGroup, -i --msgId, -s --sendMessage, -t --topic, -u --unitName",
    "queryMsgByKey": "-b --beginTimestamp, -c --cluster, -e --endTimestamp, -k --msgKey, -l --lastKey, -m --maxNum, -p --keyType, -t --topic",
    "queryMsgByUniqueKey": "-a --showAll, -c --cluster, -d --clientId, -e --endTime, -g --consumerGroup, -i --msgId, -s --startTime, -t --topic",
    "queryMsgByOffset": "-b --brokerName, -f --bodyFormat, -i --queueId, -o --offset, -r --routeTopic, -t --topic",
    "queryMsgTraceById": "-b --beginTimestamp, -c --maxNum, -e --endTimestamp, -i --msgId, -t --traceTopic",
    "printMsg": "-b --beginTimestamp, -c --charsetName, -d --printBody, -e --endTimestamp, -l --lmqParentTopic, -s --subExpression, -t --topic",
    "printMsgByQueue": "-a --brokerName, -b --beginTimestamp, -c --charsetName, -d --printBody, -e --endTimestamp, -f --calculate, -i --queueId, -p --print, -s --subExpression, -t --topic",
    "sendMessage": "-b --broker, -c --tags, -i --qid, -k --key, -m --msgTraceEnable, -p --body, -t --topic",
    "consumeMessage": "-b --brokerName, -c --MessageNumber, -e --endTimestamp, -g --consumerGroup, -i --queueId, -o --offset, -s --beginTimestamp, -t --topic",
    "updateBrokerConfig": "-a --updateAllBroker, -b --brokerAddr, -c --clusterName, -k --key, -v --value",
    "getBrokerConfig": "-b --brokerAddr, -c --clusterName",
    "updateNamesrvConfig": "-k --key, -v --value",
    "getNamesrvConfig": "",
    "cleanExpiredCQ": "-b --brokerAddr, -c --cluster",
    "deleteExpiredCommitLog": "-b --brokerAddr, -c --cluster",
    "cleanUnusedTopic": "-b --brokerAddr, -c --cluster",
    "wipeWritePerm": "-b --brokerName",
    "addWritePerm": "-b --brokerName",
    "statsAll": "-a --activeTopic, -t --topic",
    "allocateMQ": "-i --ipList, -t --topic",
    "checkMsgSendRT": "-a --amount, -s --size, -t --topic",
    "updateKvConfig": "-k --key, -s --namespace, -v --value",
    "deleteKvConfig": "-k --key, -s --namespace",
    "createUser": "-b --brokerAddr, -c --clusterName, -p --password, -t --userType, -u --username",
    "updateUser": "-b --brokerAddr, -c --clusterName, -p --password, -s --userStatus, -t --userType, -u --username",
    "deleteUser": "-b --brokerAddr, -c --clusterName, -u --username",
    "getUser": "-b --brokerAddr, -c --clusterName, -u --username",
    "listUser": "-b --brokerAddr, -c --clusterName, -f --filter",
    "createAcl": "-a --actions, -b --brokerAddr, -c --clusterName, -d --decision, -i --sourceIp, -r --resources, -s --subject",
    "updateAcl": "-a --actions, -b --brokerAddr, -c --clusterName, -d --decision, -i --sourceIp, -r --resources, -s --subject",
    "deleteAcl": "-b --brokerAddr, -c --clusterName, -r --resources, -s --subject",
    "getAcl": "-b --brokerAddr, -c --clusterName, -s --subject",
    "listAcl": "-b --brokerAddr, -c --clusterName, -r --resource, -s --subject",
    "queryCq": "-b --broker, -c --count, -g --consumer, -i --index, -q --queue, -t --topic",
    "getConsumerConfig": "-g --groupName",
    "cloneGroupOffset": "-d --destGroup, -o --offline, -s --srcGroup, -t --topic",
    "updateTopicPerm": "-b --brokerAddr, -c --clusterName, -p --perm, -t --topic",
}
NOT_TAKEN = {
    "queryMsgById": {"-u"},  # units
    "queryMsgByKey": {"-l", "-p"},  # indexes of RocksDB
    "queryMsgByOffset": {"-r"},  # light topics
    "queryMsgTraceById": {"-b", "-c", "-e"},
    "printMsg": {"-l"},
}


def options_of(name: str) -> set[str]:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    return {" ".join(param.opts) for param in command.params if isinstance(param, click.Option)} - {"-n --namesrvAddr"}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_those_of_mqadmin(name: str) -> None:
    wanted = {option for option in OPTIONS[name].split(", ") if option}
    wanted = {option for option in wanted if option.split()[0] not in NOT_TAKEN.get(name, ())}
    assert options_of(name) == wanted


def test_the_table_has_every_sub_command() -> None:
    assert set(OPTIONS) == set(PLACES) - {"help"}
