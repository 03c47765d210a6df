"""Settings of the metrics endpoint of a server, and of what it pushes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pyromq.errors import ConfigError

DEFAULT_PORT: Final = 5557
_is_label = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*").fullmatch


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Where metrics are shown and pushed, and with which labels. Raises ConfigError for what cannot work."""

    enabled: bool = True  # /metrics and /health
    host: str = "127.0.0.1"
    port: int | None = None  # None: 5557, or another one if that is taken; 0: any free one
    tls: bool = False  # with the certificate of the server
    token_file: Path | None = None  # its text is the bearer token that /metrics asks for
    series_max: int = 10_000  # of each metric; the others are added up
    labels: tuple[str, ...] = ()  # of every series, each name:value
    otlp_endpoint: str = ""  # URL of a collector; empty: nothing is pushed
    otlp_interval_ms: int = 60_000
    otlp_timeout_ms: int = 3_000
    otlp_headers_file: Path | None = None  # lines "Name: value", for a collector that asks for them

    def __post_init__(self) -> None:
        if self.port is not None and not 0 <= self.port <= 65_535:
            raise ConfigError(f"metrics.port {self.port} is outside [0, 65535]")
        if self.series_max < 1:
            raise ConfigError("metrics.series_max must be at least 1")
        if self.otlp_interval_ms < 1_000:
            raise ConfigError("metrics.otlp_interval_ms must be at least 1000")
        if self.otlp_timeout_ms < 1:
            raise ConfigError("metrics.otlp_timeout_ms must be at least 1")
        if self.otlp_endpoint:
            check_otlp_endpoint(self.otlp_endpoint)
        _ = self.label_values

    @property
    def label_values(self) -> dict[str, str]:
        """Labels that every metric gets, read from ``NAME:VALUE``. Raises ConfigError."""
        found = {}
        for text in self.labels:
            name, colon, value = text.partition(":")
            if not colon or not _is_label(name.strip()) or name.strip().startswith("__"):
                raise ConfigError(f"metrics.labels: {text!r} is not name:value, such as zone:a; names are [a-zA-Z0-9_]")
            found[name.strip()] = value.strip()
        return found


def check_otlp_endpoint(url: str) -> None:
    """Check that a URL can be a collector's. Raises ConfigError."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username
        _ = parts.port
    except ValueError:
        usable = False
    if not usable:
        text = "the URL of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318/v1/metrics"
        raise ConfigError(f"metrics.otlp_endpoint: {url!r} is not {text}")
