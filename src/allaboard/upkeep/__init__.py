"""What keeps a cluster tidy: namespaces, accounts, claims, quota, endpoints, events."""
