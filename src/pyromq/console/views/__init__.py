"""What pages and API both show: rows and numbers made of responses of the cluster, mostly by pure functions."""
