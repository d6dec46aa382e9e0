"""The doctor: what fails silently in a database, found, and told with what mends it."""

from redrive.watch.doctor.examination import CHECKS, examine, mend
from redrive.watch.doctor.finding import Check, Finding
from redrive.watch.doctor.patient import Surroundings

__all__ = ["CHECKS", "Check", "Finding", "Surroundings", "examine", "mend"]
