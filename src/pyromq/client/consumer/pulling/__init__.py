"""The pull loop of each owned queue, and the line in which a pull consumer polls.

Owns: one task for each queue; ``rules.pull_state`` decides, this room acts.
Callers: ``group_member``, ``pull_consumer``. Imports: ``base``, ``rules``.
"""
