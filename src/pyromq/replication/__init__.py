"""Replication: a master ships the bytes of its log, replicas append them and say how far they are.

``leader`` is the master's side, ``follower`` the replica's; ``replicas`` decides what counts as confirmed, without I/O.
The bytes are in ``wire/transfer.py``. What a role means for requests, tables and services is up to ``broker``.
"""
