"""The transactional sink: prepared messages by tasks, one decision by the driver, and the log that it is written to.

    tasks ──▶ prepared messages, keys with the number of the run ──▶ driver: ``decide`` (a file beside the checkpoint)
                                                                   ├─▶ END_TRANSACTION to the brokers, one per message
                                                                   └─▶ Spark's own commit of the batch

The file is the decision: what comes before it is as if it had not been, what comes after it will be made up for.
Prepared messages without an outcome are asked about by their brokers, and ``check_backs`` answers from the same files:
those of the runs that were decided for are committed, those of other runs of a decided batch are rolled back, and those
of a batch without decision have to wait for it. A prepared message that may have arrived, or not, is sent again under
the next number of its run, and the decision names the first as one that does not count. A batch that is run again after
its decision sends nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pyromq.client.core.client import Client
from pyromq.client.core.errors import error_of
from pyromq.client.core.transaction import PreparedPlace, TransactionOutcome, end_header
from pyromq.errors import MQError
from pyromq.pipeline.core.checkpoint_log import CheckpointLog
from pyromq.pipeline.core.connections import Connected
from pyromq.pipeline.sink.keys import digest_of, parse_key
from pyromq.pipeline.sink.options import SinkOptions
from pyromq.pipeline.sink.replay import MARKER_PREFIX
from pyromq.pipeline.sink.sender import PreparedRow
from pyromq.wire.codes import RequestCode, ResponseCode

logger = logging.getLogger(__name__)

_KEPT: Final = 1_000  # decisions; brokers stop asking long before so many batches are over
_AT_A_TIME: Final = 1_000


def with_group(options: SinkOptions) -> SinkOptions:
    """Prepared messages need a producer group that no other producer answers for."""
    return options if options.group else replace(options, group=MARKER_PREFIX + digest_of(options.identity))


class Decisions:
    """Commit decisions of one sink; ``digest`` is that of the query."""

    def __init__(self, log: CheckpointLog) -> None:
        self._log = log

    def newest(self) -> int:
        """The last batch that was decided; -1 before the first."""
        return max((int(name) for name in self._log.names() if name.isdigit()), default=-1)

    def decide(self, batch: int, digest: str, runs: Mapping[int, tuple[int, int]], out: Sequence[str] = ()) -> None:
        """From here on the batch is committed, whatever happens.

        ``runs``, by partition, are first and last of those that count; ``out`` are keys of them that do not.
        """
        facts = {"digest": digest, "runs": {str(partition): run for partition, run in runs.items()}, "out": list(out)}
        self._log.write(str(batch), json.dumps(facts))
        for name in self._log.names():
            if name.isdigit() and int(name) <= batch - _KEPT:
                self._log.forget(name)

    def outcome(self, key: str) -> TransactionOutcome:
        """Outcome of the prepared message with that unique key."""
        parts = parse_key(key)
        text = self._log.read(str(parts.batch)) if parts is not None else None
        if parts is None or text is None:
            return TransactionOutcome.UNKNOWN
        facts = json.loads(text)
        if facts["digest"] != parts.digest:
            return TransactionOutcome.UNKNOWN
        first, last = facts["runs"].get(str(parts.partition), (1, 0))
        counts = first <= parts.run <= last and key not in facts["out"]
        return TransactionOutcome.COMMIT if counts else TransactionOutcome.ROLLBACK


def decisions_of(options: SinkOptions) -> Decisions:
    return Decisions(CheckpointLog(options.checkpoint, "decisions"))


def end_all(connected: Connected, group: str, prepared: Sequence[PreparedRow], outcome: TransactionOutcome) -> int:
    """Tells brokers; returns how many of them did not hear it: they will ask."""
    return connected.call(_end_all(connected.client, connected.client.wire_name(group), prepared, outcome))


async def _end_all(client: Client, group: str, prepared: Sequence[PreparedRow], outcome: TransactionOutcome) -> int:
    unreported = 0
    for start in range(0, len(prepared), _AT_A_TIME):
        some = prepared[start : start + _AT_A_TIME]
        ended = await asyncio.gather(*(_end(client, group, row, outcome) for row in some), return_exceptions=True)
        failures = [failure for failure in ended if failure is not None]
        unreported += len(failures)
        _log_unreported(failures)
    return unreported


async def _end(client: Client, group: str, place: PreparedRow, outcome: TransactionOutcome) -> None:
    await client.routes.get(place.topic, timeout_ms=client.settings.request_timeout_ms)
    row = PreparedPlace(place.topic, place.offset, place.position, place.key, place.key)
    header = client.signer.signed(end_header(group, row, outcome))
    link = client.master_link(place.broker)
    response = await link.request(RequestCode.END_TRANSACTION, header, timeout_ms=client.settings.request_timeout_ms)
    if response.code != ResponseCode.SUCCESS:
        raise error_of(response)


def _log_unreported(failures: Iterable[BaseException]) -> None:
    seen = set()
    for failure in failures:
        if not isinstance(failure, MQError):
            raise failure
        if str(failure) not in seen:
            seen.add(str(failure))
            logger.warning("outcome not told, the broker will ask: error=%s", failure)
