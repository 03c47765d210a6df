"""Settings of servers as they travel: a line ``key=value`` each."""

from __future__ import annotations

from pyromq.errors import ConfigError


def settings_text(values: dict[str, str]) -> bytes:
    """Encode settings as servers take them, a line each. Raises ConfigError."""
    for key, value in values.items():
        if not key or any(character in key + value for character in "\r\n") or "=" in key:
            raise ConfigError(f"setting {key!r} cannot be written as one line key=value")
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode()


def settings_in(body: bytes) -> dict[str, str]:
    """What servers report as their settings."""
    lines = (line.partition("=") for line in body.decode("utf-8", "replace").splitlines())
    return {key.strip(): value.strip() for key, equals, value in lines if equals}
