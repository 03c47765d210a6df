"""HTTP/2 as bytes: frames, settings, error codes, header lists (RFC 9113, 7541). No I/O; ``net.http2`` moves them."""
