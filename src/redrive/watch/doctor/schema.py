"""Schema redrive: there, of this release, and as it was made."""

from __future__ import annotations

from typing import Any

from redrive.errors import SetupError
from redrive.sql import function_files, table_files
from redrive.store import migrations
from redrive.watch.doctor.finding import Check, Finding, NotChecked, check
from redrive.watch.doctor.made import Function, functions, parts
from redrive.watch.doctor.patient import Patient


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
    rows = await patient.rows(statement.sql)
    try:
        lacking = statement.load(rows)
    except SetupError as error:
        raise NotChecked(str(error)) from error
    applied = {(row.name, row.checksum) for row in rows if row.kind == "table"}
    return [
        Finding("error", "schema redrive", each, fix) for each in lacking if not each.startswith("pgmq ")
    ] + await _parts(patient, applied)


async def _parts(patient: Patient, applied: set[tuple[str, str]]) -> list[Finding]:
    """The columns and indexes that somebody dropped of what the applied table files made."""
    made = parts(file for file in table_files() if (file.name, file.checksum) in applied)
    found = await patient.rows(
        """
        select w.number, t.oid is not null as there
          from unnest(%s::text[], %s::text[], %s::text[]) with ordinality w(of, kind, name, number)
          left join pg_class t on t.relnamespace = to_regnamespace('redrive') and t.relname = w.of
         where case w.kind when 'column' then not exists (
                        select from pg_attribute a
                         where a.attrelid = t.oid and a.attname = w.name and not a.attisdropped)
                    else not exists (
                        select from pg_index i join pg_class c on c.oid = i.indexrelid
                         where i.indrelid = t.oid and c.relname = w.name and i.indisvalid) end
         order by 1
        """,
        [part.table for part in made],
        [part.kind for part in made],
        [part.name for part in made],
    )
    lost = sorted({made[int(row.number) - 1].table for row in found if not row.there})
    return [
        Finding("error", f"redrive.{table}", f"table redrive.{table} is missing: somebody dropped it")
        for table in lost
    ] + [
        Finding(
            "error",
            f"redrive.{part.table}",
            f"redrive.{part.table} lacks its {part.kind} {part.name}: somebody dropped it",
            (part.again,),
        )
        for part in (made[int(row.number) - 1] for row in found if row.there)
    ]


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
        select p.proname::text as name, array_agg(p.prosrc order by p.oid) as bodies,
               array_agg(p.prosecdef order by p.oid) as definers,
               array_agg(array_to_json(coalesce(p.proconfig, '{}')) order by p.oid) as settings,
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
        elif made.get(row.name) == file.checksum and (how := _differs(row, functions(file.text))):
            findings.append(
                Finding(
                    "error",
                    f"redrive.{row.name}",
                    f"function redrive.{row.name} is not what redrive {migrations.version('redrive')} made: "
                    f"somebody {how}",
                    (
                        f"delete from redrive.schema_file where kind = 'function' and name = '{row.name}';",
                        "redrive migrate",
                    ),
                )
            )
    return findings


def _differs(row: Any, expected: list[Function]) -> str:
    there = sorted(
        Function(body, definer, tuple(sorted(settings)))
        for body, definer, settings in zip(row.bodies, row.definers, row.settings, strict=True)
    )
    if there == expected:
        return ""
    if sorted(each.body for each in there) != sorted(each.body for each in expected):
        return "replaced it"
    return "changed whose rights it runs with (SECURITY DEFINER), or its settings (search_path, lock_timeout)"


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
