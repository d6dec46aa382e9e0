"""The app: jobs are declared on it and messages sent from it."""

from redrive.app.handle import JobHandle
from redrive.app.loading import load_app
from redrive.app.redrive import Redrive
from redrive.app.sync import SyncHandle, SyncRedrive
from redrive.store.messages import Sent

__all__ = ["JobHandle", "Redrive", "Sent", "SyncHandle", "SyncRedrive", "load_app"]
