"""All Aboard: gang-scheduled distributed training, from one laptop command to any Kubernetes cluster."""

__version__ = "0.1.0"
