"""The commit log: appending, flushing, walking through it and reading it by position, deciding what may be deleted.

For the store; the broker gets a ``LogReader`` and the jobs of flushes. Imports ``files`` and the settings.
"""
