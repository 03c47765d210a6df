"""Between clients and a broker under test: what goes wrong on the way, what is seen of it, and ways without sockets."""
