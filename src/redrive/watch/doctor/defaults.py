"""Defaults: what a setting is for a role that connects to this database, and where that is said."""

from __future__ import annotations

from typing import NamedTuple

from redrive.watch.doctor.patient import Patient

_SQL = """
with told as (
    select s.setrole, s.setdatabase, substr(c, length(%s) + 2) as value
      from pg_db_role_setting s cross join unnest(s.setconfig) c
     where c like %s || '=%%' and s.setrole in (0, coalesce(%s::oid, 0))
       and s.setdatabase in (0, (select oid from pg_database where datname = current_database())))
select t.value, t.setrole <> 0 as role, t.setdatabase <> 0 as database
  from told t
 order by t.setrole <> 0 desc, t.setdatabase <> 0 desc
 limit 1
"""


class Default(NamedTuple):
    """`where`: ``role app in database shop``, ``database shop``, … or ``the server``."""

    value: str
    where: str

    def alter(self, setting: str, value: str) -> str:
        """The statement that says something else in the same place."""
        if self.where == "the server":
            return f"alter system set {setting} = {value};"
        return f"alter {self.where} set {setting} = {value};"


async def default(patient: Patient, setting: str) -> Default:
    """What `setting` is at the start of a session of the workers' role."""
    told = await patient.rows(_SQL, setting, setting, patient.role_oid)
    role, database = f"role {patient.ident(patient.role)}", f"database {patient.ident(patient.database)}"
    for row in told:
        where = f"{role} in {database}" if row.role and row.database else role if row.role else database
        return Default(row.value, where)
    # The connecting role's own settings are nobody else's.
    found = await patient.row(
        """
        select case when source in ('database', 'user', 'database user', 'client', 'session') then boot_val
                    else reset_val end as value
          from pg_settings where name = %s
        """,
        setting,
    )
    return Default(found.value, "the server")


async def milliseconds(patient: Patient, value: str) -> float:
    """A duration setting as a number: ``3s`` and ``3000`` are the same; 0 is none."""
    found = await patient.row(
        """
        select case when %s::text ~ '^\\s*[0-9]+\\s*$' then %s::text::float8
                    else extract(epoch from %s::text::interval)::float8 * 1000 end as value
        """,
        value,
        value,
        value.replace("min", " minutes").replace("us", " microseconds"),
    )
    return found.value
