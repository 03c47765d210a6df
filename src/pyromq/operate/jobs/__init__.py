"""Jobs: bulk work with a page of its own, and one outcome for each item.

    spec ──▶ work: attempts, one for each item ──▶ run: rate, canary, pause, cancel ──▶ files: results, kept on disk

An item ends as confirmed, unchanged, unknown or not attempted; a job never says "done" where there is doubt. ``Jobs``
is what pages and the API use.
"""
