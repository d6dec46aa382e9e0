-- holders: who keeps dead rows from being cleaned up in this database: transactions that are open for a minute, prepared ones,
-- replication slots and standbys. age_sec: since when, null where the server does not say; xmin_age: transactions since.
-- Of other roles' sessions a role without pg_monitor sees no more than that they are there: those are left out.
-- part: operate, read
create function redrive.holders()
returns table (pid integer, role text, application text, state text, since timestamptz, age_sec double precision, xmin_age bigint, what text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now timestamptz := redrive.clock();
begin
    return query
        select a.pid, a.usename::text, a.application_name, a.state, a.xact_start, extract(epoch from v_now - a.xact_start)::double precision,
               greatest(age(a.backend_xmin), age(a.backend_xid))::bigint,
               case when a.backend_type = 'walsender' then 'a standby that reports its queries (hot_standby_feedback)'
                    when a.state like 'idle in transaction%' then 'a session is idle in a transaction' else 'a transaction is open' end
          from pg_stat_activity a
         where a.pid <> pg_backend_pid() and a.backend_type in ('client backend', 'walsender', 'background worker')
           and (a.backend_xmin is not null or a.backend_xid is not null)
           and (a.datname = current_database() or a.backend_type = 'walsender') and (a.xact_start is null or a.xact_start < v_now - interval '1 minute')
        union all
        select null, p.owner::text, null, 'prepared', p.prepared, extract(epoch from v_now - p.prepared)::double precision, age(p.transaction)::bigint,
               'a prepared transaction was never finished (' || p.gid || ')'
          from pg_prepared_xacts p where p.database = current_database()
        union all
        select s.active_pid, null, null, case when s.active then 'active' else 'inactive' end, i.since, extract(epoch from v_now - i.since)::double precision,
               age(s.xmin)::bigint, format('replication slot %s', s.slot_name)
          from pg_replication_slots s
          cross join lateral (select (to_jsonb(s) ->> 'inactive_since')::timestamptz as since) i
         where s.xmin is not null
         order by 6 desc nulls last, 7 desc nulls last limit 100;
end
$$;
revoke all on function redrive.holders() from public;
