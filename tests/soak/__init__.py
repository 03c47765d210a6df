"""Hours of mixed load on three members with a fault every few minutes: ``make soak HOURS=3``."""
