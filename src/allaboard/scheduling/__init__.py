"""Pods become gangs, and gangs find nodes."""
