"""Namespaces: ``<namespace>%<name>`` on the wire, the bare name for the application.

Prefixes of derived topics stay outermost (``%RETRY%<namespace>%<group>``); names of the system have no namespace.
"""

from __future__ import annotations

from pyromq.model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from pyromq.model.system_names import has_no_namespace


def wrap(namespace: str, name: str) -> str:
    """The name as servers know it; a name that has the namespace already keeps it."""
    if not namespace or has_no_namespace(name):
        return name
    prefix, bare = _derived(name)
    return name if bare.startswith(f"{namespace}%") else f"{prefix}{namespace}%{bare}"


def unwrap(namespace: str, name: str) -> str:
    """The name as the application knows it."""
    if not namespace:
        return name
    prefix, bare = _derived(name)
    return prefix + bare.removeprefix(f"{namespace}%")


def _derived(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name
