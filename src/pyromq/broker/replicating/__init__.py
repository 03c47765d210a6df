"""What a role means for a broker: replicas and their master, tables taken over, requests that replicas refuse."""
