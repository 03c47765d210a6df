"""Consumers: push (messages come to a listener) and pull (the application asks for messages).

    rules ◀ base ◀ offsets ◀ assigning, pulling, dispatch ◀ group_member ◀ push_consumer, pull_consumer

Owns: the life of a member of a group. Callers: ``transactions``, ``admin``, ``sync``. Imports: ``producer``, ``core``.
"""
