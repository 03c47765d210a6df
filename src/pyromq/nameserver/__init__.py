"""Name server: knows which broker keeps which topic, and tells clients.

``RouteTable`` decides, ``service`` turns requests into calls of it and errors into codes, ``server`` adds sockets.
"""
