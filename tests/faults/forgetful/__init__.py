"""A file system that forgets what was not flushed, mounted with FUSE under real broker processes."""
