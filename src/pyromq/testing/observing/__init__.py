"""What happened at a broker under test: the journal, messages as values, what groups did, whether any is lost."""
