"""Sources: one file an API that events are checked against. See `redrive.inbox.source`."""
