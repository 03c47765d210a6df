"""``pyromq doctor`` and ``pyromq health``: how a cluster and its servers are, and facts for who helps from afar."""
