"""Tables in the ``config`` folder: topics, groups, offsets, filters, request modes, as RocketMQ writes them.

Owns: the JSON files and their backup copies.
Callers: ``broker.state``, ``timers``. Imports: ``files``.
"""
