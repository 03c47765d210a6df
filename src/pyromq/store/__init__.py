"""The message store of one broker: commit log, consume queues, key index; synchronous, crash-safe.

Owns: every file in a store folder, and what a crash may leave in it. One owner thread; other threads get jobs.
Callers: ``broker``, ``cli``, ``testing``. Imports: ``model``, ``clock``, the formats of ``wire`` that rest on disk.
"""
