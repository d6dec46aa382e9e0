"""The story, act by act. Each does something to real workers, waits for its end, and checks the counts."""

from __future__ import annotations

import json
from collections import Counter
from uuid import UUID

from redrive.app import Redrive
from redrive.demo import app as cast
from redrive.demo.crew import Crew, Member
from redrive.demo.ledger import Ledger
from redrive.demo.page import Page

APP = "redrive.demo.app:app"
FIXED = "redrive.demo.fixed:app"
QUEUES = ("email_jobs", "invoice_jobs", "thumbnail_jobs", "video_jobs", "report_jobs")

_USER = UUID("8f3c2a10-4b6d-4e21-9c58-2f7a1d0e6b33")
_GOOD = 20
_NEIGHBOURS = 6


class Story:
    """Plays on a migrated database whose queues exist; `play` returns whether every count was right."""

    def __init__(self, page: Page, ledger: Ledger, crew: Crew, url: str) -> None:
        self._page = page
        self._ledger = ledger
        self._crew = crew
        self._app: Redrive = cast.app
        self._app.database_url = url
        self._video = 0
        self._poison = 0

    def play(self) -> bool:
        """All acts in their order."""
        mail, images, reports = self._hire()
        self._long_job_begins()
        self._good_jobs()
        self._poison_message()
        self._malformed_message()
        self._keyed_job()
        self._killer(images)
        self._somebody_finds_out()
        self._deploy(reports)
        self._long_job_ends()
        self._bug_fixed(mail)
        self._metrics()
        return self._page.wrong == 0

    def _hire(self) -> tuple[Member, Member, Member]:
        self._page.act("Three worker processes start")
        hired: list[Member] = []
        for name, *queues in (
            ("mail", "email_jobs", "invoice_jobs", "video_jobs"),
            ("images", "thumbnail_jobs"),
            ("reports", "report_jobs"),
        ):
            options = " ".join(f"--queue {queue}" for queue in queues)
            self._page.command(f"redrive worker --app {APP} {options}")
            drain_timeout = 1 if name == "reports" else 10
            hired.append(self._crew.hire(name, APP, *queues, drain_timeout=drain_timeout))
        for member in hired:
            member.wait_until_ready()
        return hired[0], hired[1], hired[2]

    def _long_job_begins(self) -> None:
        self._page.act(
            f"A job of {cast.VIDEO_SECONDS} s begins; its queue's visibility timeout is {cast.VIDEO_TIMEOUT}"
        )
        self._video = self._app.sync.send("video_jobs", {"video": "launch.mp4"}).id
        self._ledger.await_(lambda: self._ledger.starts("video_jobs"))
        self._page.tell("more of it later")

    def _good_jobs(self) -> None:
        self._page.act(f"{_GOOD} good emails")
        payloads = [{"template": "welcome", "user_id": str(_USER)} for _ in range(_GOOD)]
        self._app.sync.send_many("email_jobs", payloads)
        self._ledger.await_(lambda: self._ledger.archived("email_jobs") >= _GOOD)
        self._page.check("starts", _GOOD, len(self._ledger.starts("email_jobs")))
        self._page.check("archived as done", _GOOD, self._ledger.archived("email_jobs"))

    def _poison_message(self) -> None:
        self._page.act('A poison message: {"template": null}, and the handler raises "template missing"')
        self._poison = self._app.sync.send("email_jobs", {"template": None}).id
        self._ledger.await_(lambda: self._ledger.dead("email_jobs"))
        dead = self._ledger.dead("email_jobs")
        starts = self._ledger.starts("email_jobs", self._poison)
        self._page.check("attempts started", [1, 2, 3, 4, 5], [each.attempt for each in starts])
        self._page.check("dead letters", 1, len(dead))
        self._page.check("its reason", ["failed"], [each.reason for each in dead])
        errors = [failure["error"] for each in dead for failure in each.failures]
        self._page.check("errors kept", ["template missing"] * 5, errors)

    def _malformed_message(self) -> None:
        self._page.act(
            'A message that does not fit the handler\'s type: {"template": "welcome", "user_id": "nobody"}'
        )
        msg_id = self._app.sync.send("email_jobs", {"template": "welcome", "user_id": "nobody"}).id
        self._ledger.await_(lambda: len(self._ledger.dead("email_jobs")) > 1)
        found = [each for each in self._ledger.dead("email_jobs") if each.original_msg_id == msg_id]
        self._page.check("starts", 0, len(self._ledger.starts("email_jobs", msg_id)))
        self._page.check("dead at once, as", ["malformed"], [each.reason for each in found])
        self._page.tell("\n  ".join((found[0].error or "").splitlines()) if found else "")

    def _keyed_job(self) -> None:
        self._page.act("The same invoice sent twice with the key invoice:42")
        for _ in range(2):
            self._app.sync.send("invoice_jobs", {"invoice": 42}, key="invoice:42")
        self._ledger.await_(
            lambda: (
                self._ledger.archived("invoice_jobs") + self._ledger.archived("invoice_jobs", "duplicate")
                == 2
            )
        )
        self._page.check("starts", 1, len(self._ledger.starts("invoice_jobs")))
        self._page.check("archived as done", 1, self._ledger.archived("invoice_jobs"))
        self._page.check(
            "archived as duplicate, without a start", 1, self._ledger.archived("invoice_jobs", "duplicate")
        )

    def _killer(self, images: Member) -> None:
        self._page.act(f"A job that kills its worker process, among {_NEIGHBOURS} innocent neighbours")
        names = ["bomb.tiff", *(f"cat{number}.png" for number in range(_NEIGHBOURS))]
        sent = self._app.sync.send_many("thumbnail_jobs", [{"image": name} for name in names])
        self._ledger.await_(
            lambda: (
                self._ledger.dead("thumbnail_jobs") and self._ledger.archived("thumbnail_jobs") >= _NEIGHBOURS
            )
        )
        dead = self._ledger.dead("thumbnail_jobs")
        starts = self._ledger.starts("thumbnail_jobs", sent[0].id)
        self._page.check("neighbours archived as done", _NEIGHBOURS, self._ledger.archived("thumbnail_jobs"))
        self._page.check(
            "dead letters, by the message they were", [sent[0].id], [each.original_msg_id for each in dead]
        )
        self._page.check("its reason", ["crashed"], [each.reason for each in dead])
        self._page.check("attempts started", [1, 2, 3, 4, 5], [each.attempt for each in starts])
        self._page.check("processes killed", 5, len({each.process for each in starts}))
        self._page.check("the worker goes on", True, images.process.poll() is None)

    def _somebody_finds_out(self) -> None:
        self._page.act("Somebody finds out, and asks why")
        self._page.command("redrive alerts check")
        code, said = self._crew.run("alerts", "check", "--json")
        firing = {(each["rule"], each["subject"]): each["summary"] for each in json.loads(said)["alerts"]}
        self._page.tell("\n  ".join(firing.values()))
        self._page.check("exit code", 1, code)
        dead = [subject for rule, subject in sorted(firing) if rule == "dead_letters"]
        self._page.check("queues with an alert about dead letters", ["email_jobs", "thumbnail_jobs"], dead)
        self._page.command(f"redrive why email_jobs {self._poison}")
        code, said = self._crew.run("why", "email_jobs", str(self._poison))
        self._page.tell(said.rstrip().replace("\n", "\n  "))
        self._page.check("exit code", 0, code)

    def _deploy(self, reports: Member) -> None:
        self._page.act("A worker is stopped with SIGTERM in the middle of a job, and another starts")
        msg_id = self._app.sync.send("report_jobs", {"month": "2026-02"}).id
        self._ledger.await_(lambda: self._ledger.starts("report_jobs"))
        self._page.command(f"kill {reports.process.pid}")
        self._page.check("its exit code", 0, reports.terminate())
        self._crew.hire("reports 2", APP, "report_jobs")
        self._ledger.await_(lambda: self._ledger.archived("report_jobs"))
        found = self._ledger.message("report_jobs", msg_id)
        starts = self._ledger.starts("report_jobs", msg_id)
        self._page.check("starts", 2, len(starts))
        self._page.check("each was attempt", [1, 1], [each.attempt for each in starts])
        self._page.check(
            "deliveries, and attempts charged", [2, 1], [found.get("read_ct"), found.get("attempts")]
        )
        self._page.check("outcome", "done", found.get("outcome"))

    def _long_job_ends(self) -> None:
        self._page.act("The long job from the beginning")
        found = self._ledger.await_(
            lambda: found if (found := self._ledger.message("video_jobs", self._video)).get("outcome") else {}
        )
        self._page.check("starts", 1, len(self._ledger.starts("video_jobs", self._video)))
        self._page.check("deliveries", 1, found.get("read_ct"))
        self._page.check("outcome", "done", found.get("outcome"))
        seconds = float(found.get("duration") or 0)
        self._page.check(
            f"it took {seconds:.1f} s, three visibility timeouts", True, seconds > 2.9 * cast.VIDEO_TIMEOUT
        )

    def _bug_fixed(self, mail: Member) -> None:
        self._page.act("The bug is fixed and deployed, the dead letter sent again")
        self._page.check("the old worker's exit code", 0, mail.terminate())
        self._page.command(f"redrive worker --app {FIXED}")
        self._crew.hire("mail 2", FIXED).wait_until_ready()
        command = ("dlq", "redrive", "email_jobs", "--reason", "failed", "--canary", "1")
        self._page.command(f"redrive {' '.join(command)}")
        code, said = self._crew.run(*command)
        self._page.tell(said.strip().replace("\n", "\n  "))
        self._page.check("exit code", 0, code)
        self._page.check("emails archived as done", _GOOD + 1, self._ledger.archived("email_jobs"))
        self._page.check(
            "left dead", ["malformed"], [each.reason for each in self._ledger.dead("email_jobs")]
        )

    def _metrics(self) -> None:
        self._page.act("What is left")
        self._page.command("redrive status")
        code, said = self._crew.run("status")
        self._page.tell(said.rstrip().replace("\n", "\n  "))
        self._page.check("exit code", 0, code)
        gauges = self._ledger.gauges()
        self._page.check("queues", sorted(QUEUES), [each.queue for each in gauges])
        unfinished = sum((each.ready or 0) + (each.delayed or 0) + (each.in_flight or 0) for each in gauges)
        self._page.check("unfinished messages", 0, unfinished)
        dead = Counter({each.queue: each.dead or 0 for each in gauges})
        self._page.check("dead letters", {"email_jobs": 1, "thumbnail_jobs": 1}, dict(+dead))
