"""RocketMQ's names for the settings of a broker: those that mean the same here, and those that are not supported.

``KEYS`` serves ``broker.conf`` and the requests of tools alike. A key that is in none of the tables here nor in
``config_ignored`` does not exist: a slip of the pen, which is reported for a configuration file.
"""

from __future__ import annotations

import os
from typing import Final

from pyromq.broker.base.config_ignored import IGNORED
from pyromq.errors import ConfigError
from pyromq.model.delay_levels import parse_ladder
from pyromq.replication.settings import Role
from pyromq.security.secret import Secret
from pyromq.setting_keys import (
    KeyTable,
    Refused,
    SettingKey,
    divided,
    parse_bool,
    parse_int,
    parse_list,
    parse_size,
    show_bool,
    show_list,
    shown,
    times,
)
from pyromq.store.derived.queue_entry import ENTRY_BYTES
from pyromq.store.settings import Flush

_HOUR_MS: Final = 3_600_000
_PAGE_BYTES: Final = 4_096
_REGISTER_MS_MIN: Final = 10_000
_REGISTER_MS_MAX: Final = 60_000
_ROLES: Final = {
    "ASYNC_MASTER": Role.ASYNC_MASTER,
    "SYNC_MASTER": Role.SYNC_MASTER,
    "SLAVE": Role.REPLICA,
    "ALONE": Role.ALONE,
}
_LADDER_UNITS: Final = (("d", 86_400_000), ("h", _HOUR_MS), ("m", 60_000), ("s", 1_000), ("ms", 1))


def _parse_hours(text: str) -> tuple[int, ...]:
    hours = tuple(parse_int(hour.strip()) for hour in text.split(";"))
    if not all(0 <= hour < 24 for hour in hours):
        raise ConfigError(f"{shown(text)} is not a list of hours such as 04;16")
    return hours


def _show_hours(hours: tuple[int, ...]) -> str:
    return ";".join(f"{hour:02d}" for hour in hours)


def _parse_flush(text: str) -> Flush:
    kinds = {f"{each.name}_FLUSH": each for each in Flush}
    if text.upper() not in kinds:
        raise ConfigError(f"{shown(text)} is neither SYNC_FLUSH nor ASYNC_FLUSH")
    return kinds[text.upper()]


def _show_flush(flush: Flush) -> str:
    return f"{flush.name}_FLUSH"


def _show_ladder(steps_ms: tuple[int, ...]) -> str:
    return " ".join(_show_step(step_ms) for step_ms in steps_ms)


def _show_step(step_ms: int) -> str:
    unit, unit_ms = next(each for each in _LADDER_UNITS if step_ms % each[1] == 0)
    return f"{step_ms // unit_ms}{unit}"


def _parse_not(text: str) -> bool:
    return not parse_bool(text)


def _show_not(value: bool) -> str:
    return show_bool(not value)


_EXPORTERS: Final = {"DISABLE": False, "0": False, "PROM": True, "2": True}


def _parse_exporter(text: str) -> bool:
    if text.upper() in ("OTLP_GRPC", "1"):
        raise ConfigError(
            "OTLP goes over HTTP here: set metrics.otlp_endpoint to the URL of a collector, and PROM here"
        )
    if text.upper() not in _EXPORTERS:
        raise ConfigError(f"{shown(text)} is neither DISABLE nor PROM; OTLP has settings of its own (metrics.otlp_…)")
    return _EXPORTERS[text.upper()]


def _show_exporter(enabled: bool) -> str:
    return "PROM" if enabled else "DISABLE"


def _parse_labels(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _show_labels(labels: tuple[str, ...]) -> str:
    return ",".join(labels)


def _parse_metrics_host(text: str) -> str:
    return text.strip() or "127.0.0.1"


def _parse_metrics_port(text: str) -> int | None:
    """Empty: the default one, or another if that is taken."""
    return parse_int(text) if text else None


def _show_metrics_port(port: int | None) -> str:
    return "" if port is None else str(port)


def _parse_role(text: str) -> Role:
    if text.upper() not in _ROLES:
        raise ConfigError(f"{shown(text)} is none of {', '.join(_ROLES)}")
    return _ROLES[text.upper()]


def _show_role(role: Role) -> str:
    return next(name for name, each in _ROLES.items() if each is role)


def _parse_register_period(text: str) -> int:
    """RocketMQ takes what is outside these limits for the nearer one."""
    return min(max(_REGISTER_MS_MIN, parse_int(text)), _REGISTER_MS_MAX)


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _parse_memory_percent(text: str) -> int:
    return _memory_bytes() * parse_int(text) // 100


def _show_memory_percent(count_bytes: int) -> int:
    return round(100 * count_bytes / _memory_bytes())


KEYS: Final[dict[str, SettingKey]] = {
    "accessMessageInMemoryMaxRatio": SettingKey("store.hot_bytes", _parse_memory_percent, _show_memory_percent),
    "aclEnable": SettingKey("access.enabled", parse_bool, show_bool),
    "allAckInSyncStateSet": SettingKey("replication.all_in_sync", parse_bool, show_bool),
    "authenticationEnabled": SettingKey("access.authentication", parse_bool, show_bool),
    "authorizationEnabled": SettingKey("access.authorization", parse_bool, show_bool),
    "autoCreateSubscriptionGroup": SettingKey("auto_create_groups", parse_bool, show_bool, changeable=True),
    "autoCreateTopicEnable": SettingKey("auto_create_topics", parse_bool, show_bool, changeable=True),
    "bindAddress": SettingKey("host", str),
    "brokerClusterName": SettingKey("cluster", str),
    "brokerFastFailureEnable": SettingKey("fast_failure", parse_bool, show_bool, changeable=True),
    "brokerIP1": SettingKey("advertised_host", str),
    "brokerIP2": SettingKey("replication.advertised_host", str),
    "brokerId": SettingKey("broker_id", parse_int),
    "brokerName": SettingKey("name", str),
    "brokerPermission": SettingKey("permission", parse_int, changeable=True),
    "brokerRole": SettingKey("replication.role", _parse_role, _show_role),
    "channelExpiredTimeout": SettingKey("client_expiry_ms", parse_int),
    "defaultTopicQueueNums": SettingKey("default_topic_queues", parse_int),
    "deleteFileBatchMax": SettingKey("store.delete_files_max", parse_int),
    "deleteWhen": SettingKey("store.delete_hours", _parse_hours, _show_hours, changeable=True),
    "diskMaxUsedSpaceRatio": SettingKey("store.clean_percent", parse_int, changeable=True),
    "diskSpaceCleanForciblyRatio": SettingKey("store.force_clean_percent", parse_int),
    "diskSpaceWarningLevelRatio": SettingKey("store.full_percent", parse_int),
    "enableAutoInSyncReplicas": SettingKey("replication.auto_in_sync_replicas", parse_bool, show_bool),
    "enabledAppendPropCRC": SettingKey("store.checksums", parse_bool, show_bool),
    "enablePropertyFilter": SettingKey("property_filter", parse_bool, show_bool, changeable=True),
    "fileReservedTime": SettingKey("store.keep_ms", times(_HOUR_MS), divided(_HOUR_MS), changeable=True),
    "filterSupportRetry": SettingKey("filter_retries", parse_bool, show_bool, changeable=True),
    "flushCommitLogLeastPages": SettingKey("store.flush_bytes_min", times(_PAGE_BYTES), divided(_PAGE_BYTES)),
    "flushCommitLogThoroughInterval": SettingKey("store.flush_thorough_ms", parse_int, changeable=True),
    "flushConsumerOffsetInterval": SettingKey("offsets_save_ms", parse_int, changeable=True),
    "flushDelayOffsetInterval": SettingKey("delay_offsets_save_ms", parse_int, changeable=True),
    "flushDiskType": SettingKey("store.flush", _parse_flush, _show_flush),
    "flushIntervalCommitLog": SettingKey("store.flush_interval_ms", parse_int, changeable=True),
    "haHousekeepingInterval": SettingKey("replication.silence_ms_max", parse_int),
    "haListenPort": SettingKey("replication.port", parse_int),
    "haMasterAddress": SettingKey("replication.master_replication_address", str),
    "haSlaveFallbehindMax": SettingKey("replication.gap_bytes_max", parse_int),  # its name in 4.x
    "haMaxGapNotInSync": SettingKey("replication.gap_bytes_max", parse_int),
    "haSendHeartbeatInterval": SettingKey("replication.heartbeat_interval_ms", parse_int),
    "haTransferBatchSize": SettingKey("replication.slice_bytes", parse_int),
    "inSyncReplicas": SettingKey("replication.in_sync_replicas", parse_int),
    "initAuthenticationUser": SettingKey("access.initial_user", Secret),
    "innerClientAuthenticationCredentials": SettingKey("access.inner_credentials", Secret),
    "listenPort": SettingKey("port", parse_int),
    "longPollingEnable": SettingKey("long_polling", parse_bool, show_bool, changeable=True),
    "mappedFileSizeCommitLog": SettingKey("store.segment_bytes", parse_size),
    "mappedFileSizeTimerLog": SettingKey("store.timer_log_bytes", parse_int),
    "mappedFileSizeConsumeQueue": SettingKey(
        "store.queue_file_entries", lambda text: parse_int(text) // ENTRY_BYTES, lambda count: count * ENTRY_BYTES
    ),
    "maxFilterMessageSize": SettingKey(
        "store.scan_entries_max", lambda text: parse_int(text) // ENTRY_BYTES, lambda count: count * ENTRY_BYTES
    ),
    "maxHashSlotNum": SettingKey("store.index_slots", parse_int),
    "maxIndexNum": SettingKey("store.index_entries", parse_int),
    "maxMessageSize": SettingKey("store.body_bytes_max", parse_int),
    "maxTransferBytesOnMessageInDisk": SettingKey("store.cold_read_bytes_max", parse_int),
    "maxTransferBytesOnMessageInMemory": SettingKey("store.read_bytes_max", parse_int),
    "maxTransferCountOnMessageInDisk": SettingKey("store.cold_read_count_max", parse_int),
    "maxTransferCountOnMessageInMemory": SettingKey("store.read_count_max", parse_int),
    "metricGrpcExporterIntervalInMills": SettingKey("metrics.otlp_interval_ms", parse_int),
    "metricGrpcExporterTimeOutInMills": SettingKey("metrics.otlp_timeout_ms", parse_int),
    "metricsExporterType": SettingKey("metrics.enabled", _parse_exporter, _show_exporter),
    "metricsLabel": SettingKey("metrics.labels", _parse_labels, _show_labels),
    "metricsOtelCardinalityLimit": SettingKey("metrics.series_max", parse_int),
    "metricsPromExporterHost": SettingKey("metrics.host", _parse_metrics_host),
    "metricsPromExporterPort": SettingKey("metrics.port", _parse_metrics_port, _show_metrics_port),
    "messageDelayLevel": SettingKey("store.delay_ladder_ms", parse_ladder, _show_ladder),
    "minInSyncReplicas": SettingKey("replication.min_in_sync_replicas", parse_int),
    "namesrvAddr": SettingKey("nameservers", parse_list, show_list),
    "osPageCacheBusyTimeOutMills": SettingKey("stuck_disk_ms", parse_int),
    "quotas": SettingKey("quotas", parse_list, show_list, changeable=True),  # RocketMQ has none
    "recallMessageEnable": SettingKey("recall_messages", parse_bool, show_bool, changeable=True),
    "regionId": SettingKey("region", str),
    "registerBrokerTimeoutMills": SettingKey("register_timeout_ms", parse_int),
    "registerNameServerPeriod": SettingKey("register_interval_ms", _parse_register_period, changeable=True),
    "rejectTransactionMessage": SettingKey("transactions", _parse_not, _show_not, changeable=True),
    "sendThreadPoolQueueCapacity": SettingKey("unflushed_sends_max", parse_int),
    "serverChannelMaxIdleTimeSeconds": SettingKey("idle_ms", times(1_000), divided(1_000)),
    "shortPollingTimeMills": SettingKey("short_polling_ms", parse_int, changeable=True),
    "slaveReadEnable": SettingKey("replication.replica_reads", parse_bool, show_bool),
    "slaveTimeout": SettingKey("replication.confirm_timeout_ms", parse_int),
    "startAcceptSendRequestTimeStamp": SettingKey("sends_from_ms", parse_size, changeable=True),
    "storeReplyMessageEnable": SettingKey("store_replies", parse_bool, show_bool, changeable=True),
    "syncFlushTimeout": SettingKey("sync_flush_timeout_ms", parse_int),
    "syncFromLastFile": SettingKey("replication.from_last_file", parse_bool, show_bool),
    "timerMaxDelaySec": SettingKey("timer_delay_ms_max", times(1_000), divided(1_000)),
    "timerRollWindowSlot": SettingKey("store.timer_roll_ms", times(1_000), divided(1_000)),
    "traceTopicEnable": SettingKey("trace_topic", parse_bool, show_bool),
    "transactionCheckInterval": SettingKey("transaction_check_interval_ms", parse_int, changeable=True),
    "transactionCheckMax": SettingKey("transaction_checks_max", parse_int, changeable=True),
    "transactionTimeOut": SettingKey("transaction_timeout_ms", parse_int, changeable=True),
    "useServerSideResetOffset": SettingKey("server_side_reset", parse_bool, show_bool, changeable=True),
    "useTLS": SettingKey("nameserver_tls", parse_bool, show_bool),
    "waitTimeMillsInSendQueue": SettingKey("parked_ms_max", parse_int, changeable=True),
}
CHANGEABLE: Final = {name: key for name, key in KEYS.items() if key.changeable}

FOLDER_KEY: Final = "storePathRootDir"
PARTS_OF_FOLDER: Final = {  # keys that RocketMQ has for parts of it, which have their place here
    "abortFile": "abort",
    "storeCheckpoint": "checkpoint",
    "storePathCommitLog": "commitlog",
    "storePathConsumeQueue": "consumequeue",
    "storePathIndex": "index",
}


_CONTROLLER: Final = "replication by a Controller or DLedger is not supported: use brokerRole SYNC_MASTER and SLAVE"
_ROCKSDB: Final = "PyroMQ keeps its indexes in plain files, not in RocksDB"
_DISCOVERY: Final = "give the URL of the address server instead, namesrvAddr=http://host:port/rocketmq/nsaddr"

REFUSED: Final[dict[str, Refused]] = {
    "enableControllerMode": Refused(("false",), _CONTROLLER),
    "enableDLegerCommitLog": Refused(("false",), _CONTROLLER),
    "enableLmq": Refused(("false",), "light message queues are not supported"),
    "enableMultiDispatch": Refused(("false",), "light message queues are not supported"),
    "fetchNameSrvAddrByDnsLookup": Refused(("false",), "write the addresses of all name servers in namesrvAddr"),
    "fetchNamesrvAddrByAddressServer": Refused(("false",), _DISCOVERY),
    "indexRocksDBEnable": Refused(("false",), _ROCKSDB),
    "messageStorePlugIn": Refused(("",), "the store takes no plug-ins"),
    "readOnlyCommitLogStorePaths": Refused(("",), "the log is kept in one folder"),
    "storeType": Refused(("default",), _ROCKSDB),
    "timerRocksDBEnable": Refused(("false",), _ROCKSDB),
    "totalReplicas": Refused(("0", "1"), _CONTROLLER),
    "transRocksDBEnable": Refused(("false",), _ROCKSDB),
}

BROKER_CONF: Final = KeyTable(KEYS, REFUSED, IGNORED)
