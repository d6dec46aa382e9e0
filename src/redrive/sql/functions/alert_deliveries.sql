-- alert_deliveries: what was told, or could not be: the open ones first, then the newest. held back: by a silence.
-- part: work, operate, read
create function redrive.alert_deliveries(p_limit integer default 100)
returns table (id bigint, sink text, rule text, subject text, event text, state text, summary text, at timestamptz, next_at timestamptz, attempts integer,
               delivered_at timestamptz, gave_up_at timestamptz, error text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    if p_limit is null or p_limit < 1 then
        perform redrive._refuse(format('limit is %s; it must be at least 1', coalesce(p_limit::text, 'null')));
    end if;
    return query
        select d.id, d.sink, d.rule, d.subject, d.event,
               case when d.delivered_at is not null then 'delivered' when d.gave_up_at is not null then 'given up'
                    when d.event in ('firing', 'reminder') and (redrive._silence_of(d.rule, d.subject, redrive.clock())).id is not null then 'held back'
                    when d.attempts > 0 then 'failing' else 'waiting' end,
               d.body ->> 'summary', d.at, case when d.delivered_at is null and d.gave_up_at is null then d.next_at end, d.attempts, d.delivered_at,
               d.gave_up_at, d.error
          from redrive.alert_delivery d
         order by d.delivered_at is not null or d.gave_up_at is not null, d.id desc limit least(p_limit, 10000);
end
$$;
revoke all on function redrive.alert_deliveries(integer) from public;
