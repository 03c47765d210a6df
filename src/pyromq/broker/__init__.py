"""The broker: keeps messages in the store, and serves producers, consumers and tools.

    base ◀ state ◀ commit ◀ delays ◀ sending, pulling, transactions ◀ admin ◀ request_table ◀ broker

Owns: one event loop's worth of state between sockets and store; nothing here is touched by a second thread.
Callers: ``standalone``, ``cli.servers``, ``testing``. Imports: ``store``, ``net``, ``wire``, ``model``, ``filters``.
"""
