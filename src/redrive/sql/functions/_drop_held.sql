-- _drop_held: what a silence holds back, and is over, is not told when the silence ends; nor is its end, where nobody heard of its
-- beginning. What is on its way stays.
create function redrive._drop_held(p_now timestamptz) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from redrive.silence s where s.until > p_now) then
        return;
    end if;
    with dropped as (
        delete from redrive.alert_delivery d
         where d.event in ('firing', 'reminder') and d.delivered_at is null and d.gave_up_at is null
           and (d.claimed_until is null or d.claimed_until <= p_now) and (redrive._silence_of(d.rule, d.subject, p_now)).id is not null
           and not exists (select from redrive.alert a where a.rule = d.rule and a.subject = d.subject and a.state = 'firing' and a.fired_at = d.episode)
        returning d.*)
    delete from redrive.alert_delivery r using dropped d
     where r.event = 'resolved' and r.sink = d.sink and r.rule = d.rule and r.subject = d.subject and r.episode = d.episode and r.delivered_at is null
       and not exists (select from redrive.alert_delivery e
                        where e.sink = d.sink and e.rule = d.rule and e.subject = d.subject and e.episode = d.episode and e.event in ('firing', 'reminder')
                          and e.id not in (select x.id from dropped x));
end
$$;
revoke all on function redrive._drop_held(timestamptz) from public;
