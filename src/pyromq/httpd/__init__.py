"""A small HTTP server for probes and pages that are read, and the seats that bound its connections."""
