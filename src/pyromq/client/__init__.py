"""Producers, consumers and administration on asyncio; ``sync`` has the same for threads. Users import ``pyromq``.

    core ◀ producer ◀ consumer ◀ transactions ◀ admin ◀ sync

Owns: connections of one process to a cluster, and what its roles do over them.
Callers: ``pipeline``, ``outbox``, ``idempotent``, ``cli``. Imports: ``net``, ``wire``, ``model``, ``filters``.
"""
