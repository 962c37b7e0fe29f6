"""The embedded Kubernetes: an API server and its memory."""
