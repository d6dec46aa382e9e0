-- claim_alerts: deliveries that are due for these sinks, for whoever will deliver them, theirs for p_hold seconds; oldest first, and
-- of each alert and sink only the one whose turn it is. What a silence covers waits for its end. A time further off than any
-- may be was written by a clock that ran ahead, and is over. Never waits for a lock.
-- part: work, operate
create function redrive.claim_alerts(p_sinks text[], p_limit integer default 50, p_hold numeric default 60)
returns table (id bigint, token bigint, sink text, rule text, subject text, event text, body jsonb, attempts integer, age_sec double precision)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now timestamptz := redrive.clock();
begin
    if p_sinks is null or p_limit is null or p_limit < 1 or p_hold is null or p_hold <= 0 or p_hold > 3600 then
        perform redrive._refuse('claim_alerts takes sinks, a limit of at least 1 and a hold above 0 and up to 3600 seconds');
    end if;
    return query execute $q$
        with due as (
            select d.id from redrive.alert_delivery d
             where d.sink = any ($1) and d.delivered_at is null and d.gave_up_at is null and (d.next_at <= $2 or d.next_at > $2 + interval '61 minutes')
               and (d.claimed_until is null or d.claimed_until <= $2 or d.claimed_until > $2 + interval '61 minutes')
               and (d.event = 'test' or not exists (
                        select from redrive.alert_delivery e
                         where e.sink = d.sink and e.rule = d.rule and e.subject = d.subject and e.id < d.id and e.delivered_at is null and e.gave_up_at is null))
               and (d.event in ('resolved', 'test') or (redrive._silence_of(d.rule, d.subject, $2)).id is null)
             order by d.id limit $3 for update of d skip locked)
        update redrive.alert_delivery d
           set claimed_until = $2 + make_interval(secs => $4), token = nextval('redrive.alert_token'), tried_at = coalesce(d.tried_at, $2)
          from due where d.id = due.id
        returning d.id, d.token, d.sink, d.rule, d.subject, d.event, d.body, d.attempts, extract(epoch from $2 - d.at)::double precision $q$
      using p_sinks, v_now, least(p_limit, 1000), p_hold::float8;
end
$$;
revoke all on function redrive.claim_alerts(text[], integer, numeric) from public;
