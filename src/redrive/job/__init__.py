"""Jobs: what a handler is given (`Job`, `SyncJob`), what it may answer, and what is known of it.

A handler takes (payload), (payload, job), (job) or nothing. It ends in one of five ways:

    returns None            done: the message is archived
    Retry(after)            a failed attempt; again after `after` seconds, or after the policy's backoff
    any other exception     the same, with the policy's backoff; its text and traceback are kept
    Snooze(seconds)         not now; costs no attempt
    Reject(reason)          can never succeed: a dead letter at once

Retry, Snooze and Reject may be returned or raised. Whatever else is returned is an error, not a success.
"""

from redrive.job.completion import BlockingCompletion, Completion, learn_installation
from redrive.job.definition import JobDefinition, Malformed, parameters_of, place_of
from redrive.job.given import BlockingSettling, Cancelled, Job, Settling, SyncJob, ask, blocking
from redrive.job.outcome import Ignored, Outcome, Reject, Retry, Snooze
from redrive.job.threads import in_thread
from redrive.store.blocking import BlockingPool

__all__ = [
    "BlockingCompletion",
    "BlockingPool",
    "BlockingSettling",
    "Cancelled",
    "Completion",
    "Ignored",
    "Job",
    "JobDefinition",
    "Malformed",
    "Outcome",
    "Reject",
    "Retry",
    "Settling",
    "Snooze",
    "SyncJob",
    "ask",
    "blocking",
    "in_thread",
    "learn_installation",
    "parameters_of",
    "place_of",
]
