"""What the broker knows besides messages: topics, groups, members, offsets, locks, subscriptions.

Owns: the tables, each with one writer; a table that rests on disk is saved through ``store.tables``.
Callers: all rooms above. Imports: ``base``.
"""
