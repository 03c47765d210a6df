"""The values that all packages share: names, addresses, routes, messages. Frozen, without I/O."""
