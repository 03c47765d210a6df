"""What producers, consumers and tools share: the client, its links, routes, heartbeats, hooks and errors.

Everything in ``client`` comes in here; this room imports ``net``, ``wire`` and ``model``, and no other room of
``client``.
"""
