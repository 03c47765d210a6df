"""Getting messages: the pull loop of a queue, and the line that ``poll`` takes from.

Imports ``consumer.base`` and ``consumer.rules``; only the consumers come in.
"""
