"""Schema redrive: there, of this release, and as it was made."""

from __future__ import annotations

import re

from redrive.errors import SetupError
from redrive.sql import function_files
from redrive.store import migrations
from redrive.watch.doctor.finding import Check, Finding, NotChecked, check
from redrive.watch.doctor.patient import Patient

_BODY = re.compile(
    r"\bcreate function redrive\.(\w+)\s*\(.*?\bas (\$\w*\$)(.*?)\2", re.DOTALL | re.IGNORECASE
)


@check("schema redrive is there, and of this release")
async def schema(patient: Patient) -> list[Finding]:
    fix = ("redrive migrate",)
    if patient.owner is None:
        return [Finding("error", "schema redrive", "there is no schema redrive in this database", fix)]
    if not await patient.has("redrive.schema_files()"):
        return [
            Finding(
                "error",
                "schema redrive",
                "schema redrive has no list of what was made in it: it is half made, or not redrive's",
                fix,
            )
        ]
    statement = migrations.check_statement()
    try:
        lacking = statement.load(await patient.rows(statement.sql))
    except SetupError as error:
        raise NotChecked(str(error)) from error
    return [Finding("error", "schema redrive", each, fix) for each in lacking if not each.startswith("pgmq ")]


@check("no function of schema redrive was edited since it was made")
async def edited(patient: Patient) -> list[Finding]:
    await patient.demand("redrive.schema_files()")
    # Another release's functions are the check before's to tell of.
    ours = {file.name: file for file in function_files()}
    made = {
        row.name: row.checksum
        for row in await patient.rows(
            "select name, checksum from redrive.schema_files() where kind = 'function'"
        )
    }
    found = await patient.rows(
        """
        select p.proname::text as name, array_agg(p.prosrc) as bodies,
               array_agg(p.oid::regprocedure::text order by p.oid) as signatures
          from pg_proc p
         where p.pronamespace = to_regnamespace('redrive')
         group by p.proname order by p.proname
        """
    )
    findings: list[Finding] = []
    for row in found:
        file = ours.get(row.name)
        if file is None:
            findings += _unknown(row.signatures) if row.name not in made else []
        elif made.get(row.name) == file.checksum and sorted(row.bodies) != bodies(file.text):
            findings.append(
                Finding(
                    "error",
                    f"redrive.{row.name}",
                    f"function redrive.{row.name} is not what redrive {migrations.version('redrive')} made: "
                    "somebody replaced it",
                    (
                        f"delete from redrive.schema_file where kind = 'function' and name = '{row.name}';",
                        "redrive migrate",
                    ),
                )
            )
    return findings


def bodies(text: str) -> list[str]:
    """The bodies of the functions that a file creates, sorted."""
    return sorted(found[2] for found in _BODY.findall(text))


def _unknown(signatures: list[str]) -> list[Finding]:
    return [
        Finding(
            "warning",
            each,
            f"function {each} stands in schema redrive and is not redrive's",
            (f"drop routine {each};",),
        )
        for each in signatures
    ]


CHECKS: tuple[Check, ...] = (schema, edited)
