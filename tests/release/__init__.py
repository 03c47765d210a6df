"""The release tools, the public surface, and the built files as a user meets them."""
