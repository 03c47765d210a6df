"""Name server: knows which broker keeps which topic, and answers brokers, clients and tools from that.

Owns: the route table (pure), the key-value configuration and its file.
Callers: ``standalone``, ``cli.servers``, ``testing``. Imports: ``net``, ``wire``, ``model``.
"""
