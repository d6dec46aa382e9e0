"""Rights: what the workers' role may do, what nobody else should, and whose rows row security hides."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from redrive.sql import function_files
from redrive.watch.doctor.finding import Check, Finding, NotChecked, check
from redrive.watch.doctor.names import ident, literal
from redrive.watch.doctor.patient import Patient

# Who is anybody: PUBLIC, and the roles under which Supabase lets browsers in.
_ANYBODY = """(select 0::oid as oid, 'public'::text as name
               union all
               select oid, rolname::text from pg_roles where rolname in ('anon', 'authenticated'))"""


@check("the workers' role may execute what a worker calls")
async def role_rights(patient: Patient) -> list[Finding]:
    patient.demand_redrive()
    role = ident(patient.role)
    if patient.role_oid is None:
        return [
            Finding("error", patient.role, f"role {role} does not exist", (f"create role {role} login;",))
        ]
    wanted = sorted(file.name for file in function_files() if "work" in file.parts)
    found = await patient.row(
        """
        select has_schema_privilege(r.oid, 'redrive', 'usage') as usage,
               has_database_privilege(r.oid, current_database(), 'connect') as connect,
               array(select p.oid::regprocedure::text from pg_proc p
                      where p.pronamespace = to_regnamespace('redrive') and p.proname = any (%s)
                        and not has_function_privilege(r.oid, p.oid, 'execute') order by 1) as lacking
          from pg_roles r where r.oid = %s
        """,
        wanted,
        patient.role_oid,
    )
    lacks = ["usage on schema redrive"] if not found.usage else []
    lacks += [f"connect on database {patient.database}"] if not found.connect else []
    lacks += [f"execute on {each}" for each in found.lacking]
    if not lacks:
        return []
    fix = [f"grant connect on database {ident(patient.database)} to {role};"] if not found.connect else []
    if not found.usage or found.lacking:
        fix.append(f"redrive grant {shlex.quote(patient.role)} work")
    if not found.usage:
        fix.append(f"grant usage on schema redrive to {role};")
    if found.lacking:
        fix.append(f"grant execute on function {', '.join(found.lacking)} to {role};")
    shown = ", ".join(lacks[:3]) + (f" and {len(lacks) - 3} more" if len(lacks) > 3 else "")
    problem = f"role {role} cannot work: it lacks {shown}"
    return [Finding("error", patient.role, problem, tuple(fix))]


@check("what redrive grant recorded is granted, and its roles exist")
async def recorded_grants(patient: Patient) -> list[Finding]:
    patient.demand_redrive()
    pairs = [(file.name, part) for file in function_files() for part in file.parts]
    found = await patient.rows(
        """
        select g.role, g.part, r.oid is not null as there,
               array(select p.oid::regprocedure::text
                       from unnest(%s::text[], %s::text[]) f(name, part)
                       join pg_proc p on p.pronamespace = to_regnamespace('redrive') and p.proname = f.name
                      where f.part = g.part and not has_function_privilege(r.oid, p.oid, 'execute')
                      order by 1) as lacking,
               r.oid is not null and not has_schema_privilege(r.oid, 'redrive', 'usage') as closed
          from redrive.role_grant g left join pg_roles r on r.rolname = g.role
         order by g.role, g.part
        """,
        [name for name, _ in pairs],
        [part for _, part in pairs],
    )
    return [finding for row in found for finding in _recorded(row)]


def _recorded(row: Any) -> list[Finding]:
    subject = f"{row.role} {row.part}"
    role = ident(row.role)
    if not row.there:
        problem = f"role {role} was granted {row.part} and does not exist any more"
        forget = (
            f"delete from redrive.role_grant where role = {literal(row.role)} and part = {literal(row.part)};"
        )
        return [Finding("warning", subject, problem, (forget,), safe=True)]
    if not (row.lacking or row.closed):
        return []
    fix = [f"grant usage on schema redrive to {role};"] if row.closed else []
    fix += [f"grant execute on function {each} to {role};" for each in row.lacking]
    problem = f"role {role} was granted {row.part}, and lacks {len(fix)} of the rights that go with it"
    return [Finding("error", subject, problem, tuple(fix), safe=True)]


_HIDDEN = """
select c.oid::regclass::text as name, c.relforcerowsecurity as forced, r.rolname::text as role,
       pg_get_userbyid(c.relowner)::text as owner,
       r.rolname = {owner} as is_owner,
       exists (select from pg_policy p where p.polrelid = c.oid
                  and exists (select from unnest(p.polroles) m(oid)
                               where m.oid = 0 or pg_has_role(r.oid, m.oid, 'usage'))) as policy
  from pg_class c
 cross join pg_roles r
 where c.relkind in ('r', 'p') and c.relrowsecurity
   and (c.relnamespace = to_regnamespace('redrive')
        or c.relnamespace = to_regnamespace('pgmq') and c.relname ~ '^[qa]_|^meta$')
   and not r.rolsuper and not r.rolbypassrls
   and (not pg_has_role(r.oid, c.relowner, 'usage') or c.relforcerowsecurity)
   and (r.rolname = {owner} or r.rolname = {role} and has_table_privilege(r.oid, c.oid, 'select'))
 order by 1
"""


@check("row security hides no rows from redrive or from the workers' role")
async def row_security(patient: Patient) -> list[Finding]:
    if patient.owner is None and not patient.has_pgmq:
        raise NotChecked("there is neither schema redrive nor pgmq here")
    sql = _HIDDEN.format(owner=literal(patient.owner or ""), role=literal(patient.role))
    found = await patient.rows(sql)
    return [_hidden(row) for row in found]


def _hidden(row: Any) -> Finding:
    how = "a policy decides which of its rows" if row.policy else "no policy, so none of its rows"
    why = (
        f"forced row security on {row.name} and {how}"
        if row.forced
        else f"row security on {row.name} and {how}"
    )
    whose = "the owner of redrive's functions" if row.is_owner else "the workers' role"
    if row.forced:
        fix = (f"alter table {row.name} no force row level security;",)
        if row.owner != row.role:
            fix += (f"alter table {row.name} owner to {ident(row.role)};",)
    elif row.is_owner:
        fix = (f"alter table {row.name} owner to {ident(row.role)};",)
    else:
        fix = (
            f"create policy {ident(row.role + '_all')} on {row.name} to {ident(row.role)} using (true) "
            "with check (true);",
        )
    return Finding(
        "error" if row.is_owner else "warning",
        row.name,
        f"there is {why} can be seen by {ident(row.role)}, {whose}: what waits there looks like an empty "
        f"table",
        fix,
    )


@check("the owner of redrive's functions may use the tables of its queues")
async def owner_rights(patient: Patient) -> list[Finding]:
    tables = [name for _, name in await patient.tables()]
    found = await patient.rows(
        """
        select c.oid::regclass::text as name, pg_get_userbyid(c.relowner)::text as owner, array(
                   select w from unnest(array['select', 'insert', 'update', 'delete']) w
                    where not has_table_privilege(n.nspowner, c.oid, w)) as lacking
          from pg_namespace n
          join pg_class c on c.relnamespace = to_regnamespace('pgmq') and c.relname = any (%s)
         where n.nspname = 'redrive'
         order by 1
        """,
        tables,
    )
    owner = ident(patient.owner or "")
    return [
        Finding(
            "error",
            row.name,
            f"{owner}, as whom redrive's functions act, may not {', '.join(row.lacking)} on {row.name}, "
            f"which "
            f"belongs to {row.owner}",
            (f"grant {', '.join(row.lacking)} on {row.name} to {owner};",),
        )
        for row in found
        if row.lacking
    ]


@check("functions of schema redrive cannot be executed by just anybody")
async def open_functions(patient: Patient) -> list[Finding]:
    patient.demand_redrive()
    found = await patient.rows(
        f"""
        select p.oid::regprocedure::text as name, w.name as who
          from pg_proc p
         cross join {_ANYBODY} w
         cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
         where p.pronamespace = to_regnamespace('redrive')
           and a.grantee = w.oid and a.privilege_type = 'EXECUTE'
         order by 1, 2
        """
    )
    return [
        Finding(
            "error",
            row.name,
            f"{_who(row.who)} may execute {row.name}, which acts as {ident(patient.owner or '')}",
            (f"revoke all on function {row.name} from {row.who};",),
            safe=True,
        )
        for row in found
    ]


@check("no other SECURITY DEFINER function lets anybody at queues with redrive's rights")
async def definer_functions(patient: Patient) -> list[Finding]:
    patient.demand_redrive()
    found = await patient.rows(
        f"""
        select p.oid::regprocedure::text as name, array_agg(w.name order by w.name) as who
          from pg_proc p
         cross join {_ANYBODY} w
         cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
         where p.prosecdef and pg_get_userbyid(p.proowner) = %s
           and p.pronamespace <> to_regnamespace('redrive') and p.pronamespace <> 'pg_catalog'::regnamespace
           and p.prosrc ~* '\\m(redrive|pgmq)\\.'
           and a.grantee = w.oid and a.privilege_type = 'EXECUTE'
         group by p.oid order by 1
        """,
        patient.owner,
    )
    return [
        Finding(
            "warning",
            row.name,
            f"{_who(*row.who)} may execute {row.name}, a SECURITY DEFINER function of "
            f"{ident(patient.owner or '')} that "
            "reaches redrive or pgmq",
            (f"revoke execute on function {row.name} from {', '.join(row.who)};",),
        )
        for row in found
    ]


@check("tables of redrive and of its queues cannot be read or written by just anybody")
async def open_tables(patient: Patient) -> list[Finding]:
    patient.demand_redrive()
    queue_tables = [name for _, name in await patient.tables()]
    found = await patient.rows(
        f"""
        select c.oid::regclass::text as name, w.name as who,
               c.relnamespace = to_regnamespace('redrive') as ours,
               array_agg(distinct lower(a.privilege_type) order by lower(a.privilege_type)) as rights
          from pg_class c
         cross join {_ANYBODY} w
         cross join aclexplode(c.relacl) a
         where c.relkind in ('r', 'p', 'v', 'm')
           and (c.relnamespace = to_regnamespace('redrive')
                or c.relnamespace = to_regnamespace('pgmq') and c.relname = any (%s))
           and a.grantee = w.oid
         group by c.oid, w.name order by 1, 2
        """,
        queue_tables,
    )
    return [
        Finding(
            "error",
            row.name,
            f"{_who(row.who)} may {', '.join(row.rights)} on {row.name}",
            (f"revoke all on table {row.name} from {row.who};",),
            safe=row.ours,
        )
        for row in found
    ]


def _who(*names: str) -> str:
    shown: Sequence[str] = ["everybody (PUBLIC)" if name == "public" else f"role {name}" for name in names]
    return " and ".join(shown)


CHECKS: tuple[Check, ...] = (
    role_rights,
    recorded_grants,
    row_security,
    owner_rights,
    open_functions,
    definer_functions,
    open_tables,
)
