"""redrive: production job queues on the Postgres you already have."""

from redrive.app import JobHandle, Redrive, Sent
from redrive.errors import (
    ConfigError,
    InvalidArgument,
    Lost,
    PayloadError,
    QueueMissing,
    RedriveError,
    SetupError,
    Unavailable,
)
from redrive.inbox.event import Event
from redrive.inbox.secrets import Secret
from redrive.job import Job, Reject, Retry, Snooze, SyncJob
from redrive.policy import Backoff, QueuePolicy
from redrive.watch.schedule import Tick

__all__ = [
    "Backoff",
    "ConfigError",
    "Event",
    "InvalidArgument",
    "Job",
    "JobHandle",
    "Lost",
    "PayloadError",
    "QueueMissing",
    "QueuePolicy",
    "Redrive",
    "RedriveError",
    "Reject",
    "Retry",
    "Secret",
    "Sent",
    "SetupError",
    "Snooze",
    "SyncJob",
    "Tick",
    "Unavailable",
]
