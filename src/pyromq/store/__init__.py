"""The message store: commit log, consume queues, key index, configuration tables; synchronous, crash-safe.

The root has what other packages call, ``message_store.MessageStore`` first of all. Its rooms, each leaning only on
rooms named before it: ``files`` (access to the disk), ``log`` (the records: the truth), ``derived`` (queues and index,
computed from the log), ``sealing`` (what recovery may trust), ``tables``, ``timers``, and ``check`` above the root.
Imports the formats of ``wire`` that rest on disk, no asyncio and no sockets.
"""
