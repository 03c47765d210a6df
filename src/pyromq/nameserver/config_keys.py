"""RocketMQ's names for the settings of a name server: those that mean the same here, and the others it has."""

from __future__ import annotations

from typing import Final

from pyromq.security.secret import Secret
from pyromq.setting_keys import (
    KeyTable,
    Refused,
    SettingKey,
    divided,
    parse_bool,
    parse_int,
    parse_path,
    show_bool,
    show_path,
    times,
)

KEYS: Final[dict[str, SettingKey]] = {
    "aclEnable": SettingKey("access.enabled", parse_bool, show_bool),
    "authenticationEnabled": SettingKey("access.authentication", parse_bool, show_bool),
    "authorizationEnabled": SettingKey("access.authorization", parse_bool, show_bool),
    "bindAddress": SettingKey("host", str),
    "enableAllTopicList": SettingKey("all_topic_list_enable", parse_bool, show_bool, changeable=True),
    "enableTopicList": SettingKey("topic_list_enable", parse_bool, show_bool, changeable=True),
    "initAuthenticationUser": SettingKey("access.initial_user", Secret),
    "innerClientAuthenticationCredentials": SettingKey("access.inner_credentials", Secret),
    "kvConfigPath": SettingKey("kv_path", parse_path, show_path),
    "listenPort": SettingKey("port", parse_int),
    "needWaitForService": SettingKey("wait_for_service", parse_bool, show_bool, changeable=True),
    "orderMessageEnable": SettingKey("order_message_enable", parse_bool, show_bool, changeable=True),
    "returnOrderTopicConfigToBroker": SettingKey("return_order_topic_config", parse_bool, show_bool, changeable=True),
    "scanNotActiveBrokerInterval": SettingKey("scan_interval_ms", parse_int, changeable=True),
    "serverChannelMaxIdleTimeSeconds": SettingKey("idle_ms", times(1_000), divided(1_000)),
    "supportActingMaster": SettingKey("support_acting_master", parse_bool, show_bool, changeable=True),
    "waitSecondsForService": SettingKey("wait_seconds_for_service", parse_int, changeable=True),
}

REFUSED: Final[dict[str, Refused]] = {
    "enableControllerInNamesrv": Refused(("false",), "a name server has no controller here"),
}

IGNORED: Final = frozenset(  # thread pools, buffers and the controller
    """
clientRequestThreadPoolNums clientRequestThreadPoolQueueCapacity clusterTest configBlackList configStorePath
controllerDLegerGroup controllerDLegerPeers controllerDLegerSelfId controllerRequestThreadPoolQueueCapacity
controllerStorePath controllerThreadPoolNums controllerType defaultThreadPoolNums defaultThreadPoolQueueCapacity
deleteTopicWithBrokerRegistration electMasterMaxRetryCount enableElectUncleanMaster enableShutdownGracefully
jraftConfig mappedFileSize metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills
metricLoggingExporterIntervalInMills metricsExporterType metricsGrpcExporterHeader metricsGrpcExporterTarget
metricsInDelta metricsLabel metricsPromExporterHost metricsPromExporterPort notifyBrokerRoleChanged
notifyMinBrokerIdChanged processReadEvent productEnvName rocketmqHome scanInactiveMasterInterval
serverAsyncSemaphoreValue serverCallbackExecutorThreads serverNettyWorkerGroupEnable serverOnewaySemaphoreValue
serverPooledByteBufAllocatorEnable serverSelectorThreads serverSocketBacklog serverSocketRcvBufSize
serverSocketSndBufSize serverWorkerThreads shutdownWaitTimeSeconds unRegisterBrokerQueueCapacity
useEpollNativeSelector writeBufferHighWaterMark writeBufferLowWaterMark
    """.split()
)

NAMESRV_CONF: Final = KeyTable(KEYS, REFUSED, IGNORED)
