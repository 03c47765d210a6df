"""What a job needs of its cluster, checked before Spark is started: a check takes a moment, Spark takes seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyromq.cli.pipeline.options import ClusterOptions

if TYPE_CHECKING:
    from pyromq import Admin


def check_topics(cluster: ClusterOptions, *topics: str, group: str = "") -> None:
    """``group`` is for jobs that read a stream. Raises OptionError, TopicNotFoundError, TransportError."""
    with _admin(cluster, group) as admin:
        for topic in topics:
            admin.topics.route(topic)


def check_source(options: Mapping[str, str], *, is_stream: bool) -> None:
    """The topics that a source reads, if it names them and reads from brokers. Raises as ``check_topics`` does."""
    from pyromq import Admin
    from pyromq.pipeline.core.connections import client_settings
    from pyromq.pipeline.core.options import Use, parse_options

    found = parse_options(options, Use.STREAM if is_stream else Use.BATCH)
    if not found.store_folders:
        with Admin(client_settings=client_settings(found)) as admin:
            for topic in found.topics:
                admin.topics.route(topic)


def has_dead_letters(cluster: ClusterOptions, group: str) -> bool:
    """Whether a group ever had any. Raises OptionError, GroupNotFoundError, TransportError."""
    from pyromq.errors import TopicNotFoundError
    from pyromq.model.names import dead_letter_topic

    with _admin(cluster) as admin:
        try:
            admin.topics.route(dead_letter_topic(group))
        except TopicNotFoundError:
            admin.groups.require(group)  # a missing group is not a group without letters
            return False
    return True


def _admin(cluster: ClusterOptions, group: str = "") -> Admin:
    from pyromq import Admin
    from pyromq.pipeline.core.connections import client_settings
    from pyromq.pipeline.core.options import Use, parse_options

    given = {"topic": "any", "nameserver": cluster.nameserver, **({"group": group} if group else {})}
    options = parse_options({**given, **cluster.source_options}, Use.STREAM if group else Use.BATCH)
    return Admin(client_settings=client_settings(options))
