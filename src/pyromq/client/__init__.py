"""Producers, consumers and administration on asyncio; ``sync`` is the same for threads. Users import ``pyromq``."""
