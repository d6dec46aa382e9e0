"""Rights: what the workers' role may do, what nobody else should, and whose rows row security hides."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from redrive.sql import function_files
from redrive.watch.doctor.finding import Check, Finding, NotChecked, check
from redrive.watch.doctor.names import literal
from redrive.watch.doctor.patient import Patient

# Who is anybody: PUBLIC, and the roles under which Supabase lets browsers in.
_ANYBODY = """(select 0::oid as oid, 'public'::text as name
               union all
               select oid, rolname::text from pg_roles where rolname in ('anon', 'authenticated'))"""
# Anybody, with each role that it is a member of, and what it is granted is granted through: g.oid.
_MEMBERS = """(select w.rolname::text as name, through.rolname::text as through,
                      quote_ident(through.rolname) as quoted, g.oid, quote_ident(g.rolname) as grantee
                 from pg_roles w
                 join pg_auth_members m on m.member = w.oid
                 join pg_roles through on through.oid = m.roleid
                 join pg_roles g on g.oid = m.roleid or pg_has_role(m.roleid, g.oid, 'member')
                where w.rolname in ('anon', 'authenticated') and not w.rolsuper)"""


@check("the workers' role may execute what a worker calls")
async def role_rights(patient: Patient) -> list[Finding]:
    patient.demand_redrive()
    role = patient.ident(patient.role)
    if patient.role_oid is None:
        return [
            Finding("error", patient.role, f"role {role} does not exist", (f"create role {role} login;",))
        ]
    wanted = sorted(file.name for file in function_files() if "work" in file.parts)
    workers = sorted(file.name for file in function_files() if file.parts == ("work",))
    found = await patient.row(
        """
        select has_schema_privilege(r.oid, 'redrive', 'usage') as usage,
               has_database_privilege(r.oid, current_database(), 'connect') as connect,
               array(select p.oid::regprocedure::text from pg_proc p
                      where p.pronamespace = to_regnamespace('redrive') and p.proname = any (%s)
                        and not has_function_privilege(r.oid, p.oid, 'execute') order by 1) as lacking,
               has_schema_privilege(r.oid, 'redrive', 'usage')
               and not exists (select from pg_proc p
                                where p.pronamespace = to_regnamespace('redrive') and p.proname = any (%s)
                                  and has_function_privilege(r.oid, p.oid, 'execute')) as other
          from pg_roles r where r.oid = %s
        """,
        wanted,
        workers,
        patient.role_oid,
    )
    lacks = ["usage on schema redrive"] if not found.usage else []
    lacks += [f"connect on database {patient.database}"] if not found.connect else []
    lacks += [f"execute on {each}" for each in found.lacking]
    if not lacks:
        return []
    fix = (
        [f"grant connect on database {patient.ident(patient.database)} to {role};"]
        if not found.connect
        else []
    )
    if not found.usage or found.lacking:
        fix.append(f"redrive grant {shlex.quote(patient.role)} work")
    if not found.usage:
        fix.append(f"grant usage on schema redrive to {role};")
    if found.lacking:
        fix.append(f"grant execute on function {', '.join(found.lacking)} to {role};")
    shown = ", ".join(lacks[:3]) + (f" and {len(lacks) - 3} more" if len(lacks) > 3 else "")
    problem = f"role {role} cannot work: it lacks {shown}"
    if patient.around.role is not None:
        return [Finding("error", patient.role, problem, tuple(fix))]
    # It looks, sends or operates: nothing of what workers alone call is its to execute.
    severity = "note" if found.other else "error"
    problem += "; it is the role that the doctor connects as: name the workers' with --role"
    return [Finding(severity, patient.role, problem, tuple(fix))]


@check("what redrive grant recorded is granted, and its roles exist")
async def recorded_grants(patient: Patient) -> list[Finding]:
    patient.demand_redrive()
    pairs = [(file.name, part) for file in function_files() for part in file.parts]
    found = await patient.rows(
        """
        select g.role, quote_ident(g.role) as quoted, g.part, r.oid is not null as there,
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
    role = row.quoted
    if not row.there:
        problem = f"role {role} was granted {row.part} and does not exist any more"
        forget = (
            f"delete from redrive.role_grant where role = {literal(row.role)} and part = {literal(row.part)} "
            f"and not exists (select from pg_roles where rolname = {literal(row.role)});"
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
       quote_ident(r.rolname) as quoted, quote_ident(r.rolname || '_all') as policy_name,
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
            fix += (f"alter table {row.name} owner to {row.quoted};",)
    elif row.is_owner:
        fix = (f"alter table {row.name} owner to {row.quoted};",)
    else:
        fix = (
            f"create policy {row.policy_name} on {row.name} to {row.quoted} using (true) with check (true);",
        )
    return Finding(
        "error" if row.is_owner else "warning",
        row.name,
        f"there is {why} can be seen by {row.quoted}, {whose}: what waits there looks like an empty table",
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
    owner = patient.ident(patient.owner)
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
            f"{_who(row.who)} may execute {row.name}, which acts as {patient.ident(patient.owner)}",
            (f"revoke all on function {row.name} from {row.who};",),
            safe=True,
        )
        for row in found
    ] + await _by_membership(
        patient,
        "execute {} of redrive's functions",
        """
        select p.oid, a.grantee
          from pg_proc p cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
         where p.pronamespace = to_regnamespace('redrive') and a.privilege_type = 'EXECUTE'
        """,
    )


async def _by_membership(patient: Patient, may: str, granted: str, *params: object) -> list[Finding]:
    """Anybody that has what is `granted` (oid, grantee) as a member of another role."""
    found = await patient.rows(
        f"""
        select w.name, w.through, w.quoted, count(distinct a.oid)::integer as count
          from ({granted}) a join {_MEMBERS} w on w.oid = a.grantee
         group by 1, 2, 3 order by 1, 2
        """,
        *params,
    )
    return [
        Finding(
            "error",
            f"{row.name} in {row.through}",
            f"role {row.name} is a member of {row.quoted}, and may {may.format(format(row.count, ','))} "
            "through it",
            (f"revoke {row.quoted} from {row.name};",),
        )
        for row in found
    ]


# A body that is no text (begin atomic) is known by what it depends on; of the others the text is searched,
# and the search_path they set: SQL that is put together from pieces is not seen. One that @app.rpc has made,
# known by its comment, is there for one role.
_DEFINERS = f"""
select p.oid::regprocedure::text as name, array_agg(distinct w.name order by w.name) as who,
       array_agg(distinct w.grantee order by w.grantee) as grantees
  from pg_proc p
 cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
  join (select name, name as grantee, oid from {_ANYBODY} w
        union all select name, grantee, oid from {_MEMBERS} w) w
    on w.oid = a.grantee and w.oid <> p.proowner
 where a.privilege_type = 'EXECUTE' and p.prosecdef and pg_get_userbyid(p.proowner) = %s
   and p.pronamespace not in ('redrive'::regnamespace, 'pg_catalog'::regnamespace)
   and p.pronamespace is distinct from to_regnamespace('pgmq')
   and (p.prosrc ~* '(\\m|")(redrive|pgmq)"?\\s*\\.'
        or exists (select from unnest(p.proconfig) c where c ~ '^search_path=.*\\m(redrive|pgmq)\\M')
        or exists (select from pg_depend d
                    where d.classid = 'pg_proc'::regclass and d.objid = p.oid
                      and (d.refclassid = 'pg_proc'::regclass
                           and d.refobjid in (select f.oid from pg_proc f where f.pronamespace in (
                                   to_regnamespace('redrive'), to_regnamespace('pgmq')))
                           or d.refclassid = 'pg_class'::regclass
                           and d.refobjid in (select c.oid from pg_class c where c.relnamespace in (
                                   to_regnamespace('redrive'), to_regnamespace('pgmq'))))))
 group by p.oid
having not (coalesce(obj_description(p.oid, 'pg_proc'), '') ~ '[(]redrive [0-9a-f]{{16}}[)]$'
            and count(distinct w.name) = 1 and bool_and(w.name <> 'public'))
 order by 1
"""


@check("no other SECURITY DEFINER function lets anybody at queues with redrive's rights")
async def definer_functions(patient: Patient) -> list[Finding]:
    patient.demand_redrive()
    found = await patient.rows(_DEFINERS, patient.owner)
    return [
        Finding(
            "warning",
            row.name,
            f"{_who(*row.who)} may execute {row.name}, a SECURITY DEFINER function of "
            f"{patient.ident(patient.owner)} that reaches redrive or pgmq",
            (f"revoke execute on function {row.name} from {', '.join(row.grantees)};",),
        )
        for row in found
    ]


# Columns' too: to take all rights on a table takes those on its columns.
_TABLE_RIGHTS = """
select c.oid, a.grantee, a.privilege_type
  from pg_class c
 cross join lateral (select * from aclexplode(coalesce(c.relacl, acldefault('r', c.relowner)))
                     union all
                     select x.* from pg_attribute t cross join aclexplode(t.attacl) x
                      where t.attrelid = c.oid) a
 where c.relkind in ('r', 'p', 'v', 'm')
   and (c.relnamespace = to_regnamespace('redrive')
        or c.relnamespace = to_regnamespace('pgmq') and c.relname = any (%s))
"""


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
          join ({_TABLE_RIGHTS}) a on a.oid = c.oid and a.grantee = w.oid
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
    ] + await _by_membership(patient, "read or write {} of these tables", _TABLE_RIGHTS, queue_tables)


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
