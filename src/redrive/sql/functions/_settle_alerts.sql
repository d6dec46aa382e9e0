-- _settle_alerts: settle_alerts, checked.
create function redrive._settle_alerts(p_ids bigint[], p_tokens bigint[], p_errors text[], p_retry_after numeric[], p_now timestamptz) returns integer
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_counted integer;
begin
    execute $q$
        with report as (
            select * from unnest($1, $2, $3, $4::double precision[]) r(id, token, error, after)),
        ended as (
            update redrive.alert_delivery d
               set delivered_at = case when r.error is null then $5 end,
                   error = left(r.error, 500),
                   attempts = d.attempts + (r.error is not null)::integer,
                   next_at = $5 + make_interval(secs => greatest(least(10 * 2 ^ least(d.attempts, 10), 900), case when r.after < 3600 then r.after when r.after >= 3600 then 3600 end)),
                   gave_up_at = case when r.error is not null and (r.after = 'infinity' or $5 >= coalesce(d.tried_at, d.at) + interval '24 hours') then $5 end,
                   claimed_until = null, token = null, request_id = null
              from report r
             where d.id = r.id and d.token = r.token and d.delivered_at is null and d.gave_up_at is null
            returning d.*),
        -- Nobody is told that something is over, or goes on, who never heard of it.
        behind as (
            update redrive.alert_delivery d set gave_up_at = $5, error = 'the one before it was given up'
              from ended e
             where e.gave_up_at is not null and d.sink = e.sink and d.rule = e.rule and d.subject = e.subject and d.episode = e.episode and d.id > e.id
               and d.delivered_at is null and d.gave_up_at is null),
        counted as (
            update redrive.alert_sink s set delivered = s.delivered + c.delivered, failures = s.failures + c.failures
              from (select e.sink, count(*) filter (where e.error is null) as delivered, count(e.error) as failures from ended e group by e.sink order by e.sink) c
             where s.name = c.sink)
        select count(*) from ended $q$
       into v_counted using p_ids, p_tokens, p_errors, p_retry_after, p_now;
    return v_counted;
end
$$;
revoke all on function redrive._settle_alerts(bigint[], bigint[], text[], numeric[], timestamptz) from public;
