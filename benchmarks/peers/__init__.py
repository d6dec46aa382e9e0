"""Whom redrive is measured against. Each runs in a process of its own, as redrive's worker does."""
