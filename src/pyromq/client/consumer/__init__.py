"""Consuming: the push consumer and the pull consumer, and what both are as members of a group.

Here are the classes that users make; the rooms below do the work: ``rules`` decides, ``base`` is what the others share,
``offsets``, ``assigning``, ``pulling`` and ``dispatch`` act. Imports those, ``client.producer`` and ``client.core``.
"""
