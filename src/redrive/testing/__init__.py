"""What your tests need: a database of their own, the real worker in their process, and a clock that moves.

The pytest fixtures `redrive_use`, `redrive_database`, `redrive_clock` and `redrive_server` come with the
installation (module `pytest_redrive`); everything here works without pytest too.

Guarantees  no second engine: what runs is the SQL and the worker of production, on a real Postgres;
            nothing here works messages of a database that was not named as a test's (`use_database`).
"""

from redrive.testing.case import Case, dead_letter_case, load_case, run_case
from redrive.testing.clock import Clock
from redrive.testing.database import Databases, embedded_server, use_database
from redrive.testing.idle import Ran, run_until_idle
from redrive.testing.schedule import run_schedule
from redrive.testing.sent import Message, assert_sent, sent

__all__ = [
    "Case",
    "Clock",
    "Databases",
    "Message",
    "Ran",
    "assert_sent",
    "dead_letter_case",
    "embedded_server",
    "load_case",
    "run_case",
    "run_schedule",
    "run_until_idle",
    "sent",
    "use_database",
]
