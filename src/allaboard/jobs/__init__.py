"""JobSets become Jobs, Jobs become Pods."""
