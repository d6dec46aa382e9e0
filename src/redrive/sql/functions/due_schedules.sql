-- due_schedules: the schedules of these names that are not paused, due or not, and what time it is here: a scheduler
-- computes ticks from `now`, never from its own clock. Notes that they are looked after. waiting: ticks that wait for the
-- end of the one before.
-- part: work, operate
create function redrive.due_schedules(p_names text[])
returns table (name text, revision integer, cron text, every_sec numeric, tz text, missed text, overlap text,
               next_at timestamptz, base_at timestamptz, waiting boolean, now timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now timestamptz := redrive.clock();
begin
    update redrive.schedule s set seen_at = v_now
     where s.name in (select r.name from redrive.schedule r
                       where r.name = any (p_names) and (r.seen_at is null or r.seen_at < v_now - interval '15 seconds')
                       order by r.name for update skip locked);
    return query
        select s.name, s.revision, s.cron, s.every_sec, s.tz, s.missed, s.overlap, redrive._sound(s.next_at), s.base_at,
               exists (select from redrive.schedule_tick t where t.name = s.name and t.outcome = 'waiting'), v_now
          from redrive.schedule s
         where s.name = any (p_names) and not s.paused
         order by redrive._sound(s.next_at) nulls first, s.name;
end
$$;
revoke all on function redrive.due_schedules(text[]) from public;
