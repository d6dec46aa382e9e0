-- _read_ticks: of each queue that a job of pg_cron's posts for, how many of the newest calls in a row went wrong. A call that was refused
-- (4xx), or that pg_net never answered, counts at once: it does not mend itself. What may (a time-out, 5xx, no connection) counts from three
-- in a row on, or when it has gone on for five minutes. A call whose time is not over is left out.
create function redrive._read_ticks(p_now timestamptz) returns setof redrive._reading
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_kept interval := coalesce(nullif(current_setting('pg_net.ttl', true), ''), '6 hours')::interval;
begin
    if to_regclass('net._http_response') is null then
        return;
    end if;
    return query execute $q$
        with answer as (
            select c.queue, c.at, redrive._net_error(r.id is not null, r.status_code, r.timed_out, r.error_msg) as error,
                   r.id is null or coalesce(r.status_code between 400 and 499 and r.status_code not in (408, 425, 429), false) as lasting, r.status_code,
                   row_number() over (partition by c.queue order by c.at desc, c.request_id desc) as n
              from redrive.http_call c left join net._http_response r on r.id = c.request_id
             where c.at > $1 - $2 and (r.id is not null or c.at < $1 - make_interval(secs => c.timeout_sec::float8 + 30))),
        failed as (
            select a.*, first_value(a.error) over w as said, first_value(a.status_code) over w as status
              from answer a
             where a.n < coalesce((select min(g.n) from answer g where g.queue = a.queue and g.error is null), 2147483647)
            window w as (partition by a.queue order by a.n)),
        judged as (
            select q.queue, count(f.n) as times, coalesce(bool_or(f.lasting) or count(f.n) >= 3 or min(f.at) < $1 - interval '5 minutes', false) as counts,
                   min(f.said) as said, min(f.status) as status
              from (select distinct c.queue from redrive.http_call c where c.at > $1 - $2) q left join failed f on f.queue = q.queue
             group by q.queue)
        select 'tick_failed', j.queue, case when j.counts then j.times else 0 end::double precision,
               jsonb_build_object('why', j.said, 'look', case when j.status in (401, 403) then 'redrive supabase secrets' else 'redrive doctor' end)
          from judged j order by 2 limit 500 $q$ using p_now, v_kept;
end
$$;
revoke all on function redrive._read_ticks(timestamptz) from public;
