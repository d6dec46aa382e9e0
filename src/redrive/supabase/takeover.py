"""Takeover: the statements by which redrive takes the place of the articles' recipe, each a DO block's code.

They stand in one transaction, `LOCKS` before the queues are redrive's and the others behind, and each finds
nothing to do once it was done. In braces stands what `recipe` puts there.

What a worker of the recipe is doing meanwhile. `LOCKS` waits for its statements that run and makes the next
ones wait, so that a key is either in the table that `KEYS` reads or was never taken.
- Its key is taken: it runs, ran, or died of it. Nobody can tell which, so its message is a dead letter
  (`MESSAGES`).
- It has read the message and taken no key yet. When it goes on, its `claim_job` fails (the table is gone) or
  is redrive's: in the article's worker both end in `queue_archive`, which would lose a message that nobody
  ran. So such messages get new ids here, which nobody archives by the old one; where it asks redrive's
  claim_job, the key is taken for a quarter of an hour, longer than it lives; and until that is over nobody
  reads the message: who does then, by redrive or by the articles' calls, gets its key and runs it, once.
"""

from __future__ import annotations

# Who may not rename a table could not keep it; and keys that stand elsewhere would be lost without a word.
LOCKS = """
declare
    v_table text;
    v_other record;
begin
    select c.oid::regclass as name, pg_get_userbyid(c.relowner) as owner into v_other
      from ({tables}) t join pg_catalog.pg_class c on c.oid = to_regclass(t.name)
     where not pg_has_role(current_user, c.relowner, 'usage') limit 1;
    if found then
        raise exception using errcode = 'RD002', message = format(
            'table %s of the recipe belongs to role %s, and you are %s, so redrive cannot take it over; '
            'as %2$s run: alter table %1$s owner to %3$I; then run this again',
            v_other.name, v_other.owner, current_user);
    end if;
    select f.signature, w.name, c.relkind,
           (select format('%I.%I', n.nspname, e.relname)
              from pg_catalog.pg_class e join pg_catalog.pg_namespace n on n.oid = e.relnamespace
             where e.relname = w.name and e.relkind in ('r', 'p') and n.nspname <> 'public'
             order by n.nspname limit 1) as elsewhere
      into v_other
      from (values ('public.claim_job(text)', 'processed_jobs'),
                   ('public.claim_worker_lease(text,integer)', 'worker_leases')) w (signature, name)
      join ({functions}) f on f.signature = w.signature
      left join pg_catalog.pg_class c on c.oid = to_regclass('public.' || w.name)
     where c.relkind not in ('r', 'p')
        or c.oid is null and pg_get_functiondef(f.oid) !~* ('public"?[.]"?' || w.name)
     limit 1;
    if found then
        raise exception using errcode = 'RD002', message = format(
            'function %1$s writes to %2$s, and public.%2$s is no table, so redrive cannot take over what it '
            'wrote; stop its workers, make %3$s table public.%2$s%4$s, and run this again',
            v_other.signature, v_other.name, coalesce(v_other.elsewhere, 'its table'),
            case when v_other.relkind is not null then ' in place of what has that name'
                 when v_other.elsewhere is not null
                 then format(' (alter table %s set schema public)', v_other.elsewhere) else '' end);
    end if;
    if not exists (select from ({functions}) f where f.signature = 'public.claim_job(text)')
       and not exists (select from ({tables}) t) then
        return;
    end if;
    -- Queues first, as its workers do; read_with_dlq and queue_archive write to them.
    for v_table in
        select format('pgmq.%I', 'q_' || q) from unnest({queues}) q
        union all
        select t.name from ({tables}) t
    loop
        if to_regclass(v_table) is not null then
            execute format('lock table %s in exclusive mode', v_table);
        end if;
    end loop;
exception when lock_not_available then
    raise exception using errcode = '55P03', message = format(
        'table %s is held by another transaction, so redrive cannot take over from the recipe; nothing was '
        'changed: run this again', v_table);
end
"""

KEYS = """
declare
    v_now     constant timestamptz := redrive.clock();
    v_table   constant regclass := to_regclass('public.processed_jobs');
    v_queues  constant text[] := {queues};
    v_type    text;
    v_unknown text;
    v_unfit   text[];
    v_count   bigint;
begin
    if v_table is null then
        return;
    elsif not exists (select from ({tables}) t where t.name = 'public.processed_jobs') then
        if exists (select from ({functions}) f where f.signature = 'public.claim_job(text)') then
            raise exception using errcode = 'RD002', message =
                'table public.processed_jobs has no column idempotency_key, so redrive cannot read which '
                'keys claim_job has taken; give the column that holds them this name, and run this again';
        end if;
        return;
    elsif row_security_active(v_table) then
        raise exception using errcode = 'RD002', message = format(
            'row security hides keys in table public.processed_jobs from role %s, which takes them over; '
            'run this as the table''s owner, without force row level security', current_user);
    end if;
    select q into v_unknown from unnest(v_queues) q
     where not exists (select from redrive.queue k where k.queue = q) limit 1;
    if found then
        raise exception using errcode = 'RD002', message = format(
            'queue %s is not one of redrive''s, and is to know the keys in public.processed_jobs; name the '
            'queue whose workers asked claim_job: redrive supabase init --replace-recipe --keys-of QUEUE',
            v_unknown);
    end if;
    select format_type(a.atttypid, null) into v_type from pg_catalog.pg_attribute a
     where a.attrelid = v_table and a.attname = 'processed_at' and not a.attisdropped;
    execute format($q$
        with taken as (
                 select p.idempotency_key::text as key, min(%1$s) as at from %2$s p
                  where length(p.idempotency_key::text) between 1 and 512 group by 1),
             queues as materialized (
                 select q.queue, $2 + redrive._retention(q.queue) as expires_at
                   from (select '' as queue union select unnest($1)) q)
        insert into redrive.key as k (queue, key, state, owner, done_at, expires_at)
        select q.queue, t.key, 'done', 'claim_job before redrive',
               case when isfinite(t.at) then t.at else $2 end, q.expires_at
          from queues q cross join taken t
        on conflict (queue, key) do update
            set state = 'done', lease_until = null, done_at = coalesce(k.done_at, excluded.done_at),
                owner = coalesce(k.owner, excluded.owner),
                expires_at = greatest(k.expires_at, excluded.expires_at)$q$,
        case when v_type in ('timestamp with time zone', 'timestamp without time zone', 'date')
             then 'p.processed_at::timestamptz' else 'null::timestamptz' end, v_table)
      using v_queues, v_now;
    get diagnostics v_count = row_count;
    raise info 'keys of public.processed_jobs that are done, for claim_job and for queue %: %',
        array_to_string(v_queues, ', '), v_count / (cardinality(v_queues) + 1);
    execute format($q$
        select array_agg(quote_literal(left(k, 40))) from (
            select p.idempotency_key::text as k from %s p
             where length(p.idempotency_key::text) not between 1 and 512 limit 10) k$q$, v_table)
       into v_unfit;
    if v_unfit is not null then
        raise warning '%', format(
            'keys of public.processed_jobs that redrive cannot have, since they are not 1 to 512 characters, '
            'and so are not taken over: %s', array_to_string(v_unfit, ', '));
    end if;
end
"""

MESSAGES = """
declare
    v_now    constant timestamptz := redrive.clock();
    q        redrive.queue;
    v_claims text;
    v_ids    bigint[];
    v_new    bigint[];
    v_key    text;
    v_odd    text[];
    v_any    boolean;
    -- Two of JSON are the same to JavaScript where their numbers are the same doubles.
    v_same   constant text := $q$(
        select string_agg(case when t.token[1] ~ '^[0-9-]' and length(t.token[1]) < 300
                               then (t.token[1]::float8)::text else t.token[1] end, '' order by t.n)
          from regexp_matches((%s)::text, '"(?:[^"\\\\]|\\\\.)*"|-?[0-9][0-9.eE+-]*|[^"0-9-]+', 'g')
               with ordinality t (token, n))$q$;
begin
    if not exists (select from ({tables}) t where t.name = 'public.processed_jobs') then
        return;
    end if;
    for q in select * from redrive.queue k where k.queue = any ({queues}) order by k.queue loop
        continue when to_regclass(format('pgmq.%I', 'q_' || q.queue)) is null;
        -- A client reads such a key as JSON and writes it in its own way: no spaces, 1 for 1.0, fewer digits.
        v_odd := '{}';
        execute format(
            'select exists (select from pgmq.%I m where jsonb_typeof(m.message -> ''idempotency_key'') '
            'in (''object'', ''array'', ''number''))', 'q_' || q.queue) into v_any;
        if v_any then
            for v_key in
                select p.idempotency_key::text from public.processed_jobs p
                 where p.idempotency_key::text ~ '^[[{0-9-]'
            loop
                begin
                    v_odd := v_odd || (v_key::jsonb)::text;
                exception when data_exception or program_limit_exceeded then
                    null;
                end;
            end loop;
        end if;
        v_claims := 'select m.msg_id from pgmq.%1$I m join public.processed_jobs p '
                    'on p.idempotency_key::text = ';
        execute format(
            'select array_agg(c.msg_id order by c.msg_id) from ('
            || v_claims || 'm.message ->> ''idempotency_key'' union '
            || v_claims || '%2$s union '
            || v_claims || '''msg:'' || m.msg_id union '
            'select m.msg_id from pgmq.%1$I m join unnest($1) o (key) on ' || format(v_same, 'o.key') || ' = '
            || format(v_same, 'm.message -> ''idempotency_key''')
            || ' where jsonb_typeof(m.message -> ''idempotency_key'') '
            'in (''object'', ''array'', ''number'')) c',
            'q_' || q.queue, redrive._part(q, 'key'))
           into v_ids using v_odd;
        if v_ids is not null then
            if redrive._bury(q, v_ids, array_fill('rejected'::text, array[cardinality(v_ids)]),
                             'claimed before redrive, outcome unknown') <> cardinality(v_ids) then
                raise exception using errcode = 'RD002', message = format(
                    'queue %s has no dead-letter queue for messages whose key is claimed and whose outcome '
                    'nobody knows; run: select redrive.create_queue(%1$L)', q.queue);
            end if;
            raise warning '%', format(
                'queue %s: messages that were claimed before redrive, outcome unknown, are dead letters now: '
                '%s; see `redrive dlq list %1$s`, and to run one all the same '
                '`redrive dlq redrive %1$s ID --force`', q.queue, {list_ids});
        end if;

        -- Where redrive's workers work already, they may hold them.
        continue when exists (select from redrive.worker w where w.queue = q.queue and w.worker <> '');
        execute format($q$
            with held as materialized (
                     select m.msg_id as id, %2$s as sent,
                            coalesce(m.message ->> 'idempotency_key', 'msg:' || m.msg_id) as key
                       from pgmq.%1$I m
                      where m.read_ct > 0 and m.vt > $1 - interval '10 minutes' and %3$s),
                 moved as (
                     update pgmq.%1$I m set msg_id = default, vt = greatest(m.vt, $1 + interval '15 minutes')
                       from held h where m.msg_id = h.id
                     returning h.id, m.msg_id as new),
                 told as (
                     update redrive.sent_key s
                        set msg_ids = array(select coalesce(v.new, i) from unnest(s.msg_ids) i
                                              left join moved v on v.id = i)
                      where s.queue = $2 and s.key in (select h.sent from held h)),
                 taken as (
                     insert into redrive.key (queue, key, state, owner, done_at, expires_at)
                     select distinct '', h.key, 'done', 'taken over by redrive', $1,
                            $1 + interval '15 minutes'
                       from held h where length(h.key) between 1 and 512
                     on conflict (queue, key) do nothing)
            select array_agg(v.id order by v.id), array_agg(v.new order by v.id) from moved v$q$,
            'q_' || q.queue, redrive._part(q, 'key'),
            case when q.has_headers then '(m.headers ? ''x-redrive-event'') is not true' else 'true' end)
           into v_ids, v_new using v_now, q.queue;
        if v_ids is not null then
            raise info '%', format(
                'queue %s: messages that the recipe''s worker had read and not claimed have new ids, and run '
                'in a quarter of an hour, when that worker is gone for certain: %s', q.queue, {list_new});
        end if;
    end loop;
end
""".replace(
    "{list_ids}",
    "array_to_string(v_ids[1 : 50], ', ') "
    "|| case when cardinality(v_ids) > 50 then format(' and %s more', cardinality(v_ids) - 50) else '' end",
).replace(
    "{list_new}",
    "(select string_agg(format('%s is %s', n.id, n.new), ', ' order by n.id) "
    "from unnest(v_ids[1 : 50], v_new[1 : 50]) n (id, new)) "
    "|| case when cardinality(v_ids) > 50 then format(' and %s more', cardinality(v_ids) - 50) else '' end",
)

LEASES = """
declare
    v_now   constant timestamptz := redrive.clock();
    v_table constant regclass := to_regclass('public.worker_leases');
    v_type  text;
    v_count bigint;
begin
    if not exists (select from ({tables}) t where t.name = 'public.worker_leases') then
        return;
    end if;
    select format_type(a.atttypid, null) into v_type from pg_catalog.pg_attribute a
     where a.attrelid = v_table and a.attname = 'lease_until' and not a.attisdropped;
    if v_type is null or v_type not in ('timestamp with time zone', 'timestamp without time zone') then
        raise exception using errcode = 'RD002', message =
            'table public.worker_leases has no column lease_until that is a time, so redrive cannot read who '
            'holds what; wait until nobody works, drop that table, and run this again';
    end if;
    -- Named like one of redrive's own they would stop it; the longest end is one that every client can read.
    execute format($q$
        insert into redrive.lease as l (name, token, acquired_at, lease_until)
        select w.name, nextval('redrive.lease_token'), $1, w.ends
          from (select p.worker_name::text as name,
                       max(least(p.lease_until::timestamptz, $1 + interval '100 years')) as ends
                  from %s p where p.lease_until::timestamptz > $1 group by 1) w
         where length(w.name) between 1 and 255 and w.name !~ '^(queue:|redrive[.])'
        on conflict (name) do update
            set token = excluded.token, holder = null, acquired_at = excluded.acquired_at,
                lease_until = excluded.lease_until
          where l.lease_until <= $1$q$, v_table) using v_now;
    get diagnostics v_count = row_count;
    raise info 'leases of public.worker_leases that are held on: %', v_count;
end
"""

JOBS = """
declare
    v_job record;
begin
    if to_regclass('cron.job') is null then
        return;
    end if;
    for v_job in
        execute 'select c.jobid, c.jobname, c.username, c.schedule, c.active from cron.job c
                  where c.jobname = any ($1) and c.database = current_database() order by c.jobid'
          using {jobs}
    loop
        if v_job.username = current_user then
            execute 'select cron.unschedule($1::bigint)' using v_job.jobid;
            raise info 'cron job % (%) is unscheduled', v_job.jobname, v_job.schedule;
        elsif v_job.active then
            raise exception using errcode = 'RD002', message = format(
                'cron job %s belongs to role %s, and would go on beside redrive''s; as %2$s run: '
                'select cron.unschedule(%1$L); then run this again', v_job.jobname, v_job.username);
        end if;
    end loop;
end
"""

FUNCTIONS = """
declare
    v_found  record;
    v_detail text;
    v_gone   boolean := false;
begin
    select o.* into v_found from ({others}) o where o.schema = {api_schema} limit 1;
    if found then
        raise exception using errcode = 'RD002', message = format(
            'function %s has a name that redrive needs in schema %s, and is not the recipe''s; rename '
            'or drop it, or give redrive''s functions another schema', v_found.signature, v_found.schema);
    end if;
    for v_found in select f.* from ({functions}) f loop
        execute format('drop function %s', v_found.signature);
        v_gone := true;
    end loop;
    if v_gone then
        notify pgrst, 'reload schema';
    end if;
exception
    when dependent_objects_still_exist then
        get stacked diagnostics v_detail = pg_exception_detail;
        raise exception using errcode = 'RD002', message = format(
            'function %s of the recipe cannot be dropped: %s; drop that, run this again, and create it again',
            v_found.signature, replace(v_detail, chr(10), '; '));
    when insufficient_privilege then
        raise exception using errcode = 'RD002', message = format(
            'function %s of the recipe cannot be dropped: it belongs to role %s, and you are %s; '
            'drop it as %2$s, and run this again', v_found.signature,
            (select pg_get_userbyid(p.proowner) from pg_catalog.pg_proc p where p.oid = v_found.oid),
            current_user);
end
"""

TABLES = """
declare
    v_table record;
    v_role  name;
begin
    for v_table in select t.* from ({tables}) t loop
        if to_regclass(format('public.%I', v_table.kept)) is not null then
            raise exception using errcode = 'RD002', message = format(
                'table %s cannot be kept as public.%s, since there is one already; drop or rename that one, '
                'and run this again', v_table.name, v_table.kept);
        end if;
        execute format('alter table %s rename to %I', v_table.name, v_table.kept);
        execute format('alter table public.%I enable row level security', v_table.kept);
        execute format('revoke all on table public.%I from public', v_table.kept);
        for v_role in
            select r.rolname from pg_catalog.pg_roles r where r.rolname in ('anon', 'authenticated')
        loop
            execute format('revoke all on table public.%I from %I', v_table.kept, v_role);
        end loop;
        raise info '% is kept as public.%: nothing reads it any more', v_table.name, v_table.kept;
    end loop;
end
"""
