"""What the broker knows: topics, groups, offsets, filters, connected clients, queue locks. Each table has one owner.

Decides and remembers; sends nothing. Imports ``base`` only.
"""
