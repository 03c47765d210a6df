"""Derived data: consume queues and key index, both computed from the log and rebuilt from it when they are damaged.

For the store, which writes them, and for ``sealing`` and ``check``. Imports ``files``, ``log`` and the settings.
"""
