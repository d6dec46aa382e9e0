-- _rates: a second and queue, over about five minutes: against the youngest sample that is 240 s old, else the oldest that is 30 s
-- old. Null where there is none, or a counter went back (the queue was made anew). finished: what left the queue's table by
-- the workers' counters, or by what is missing there, for those who work without (read_with_dlq and queue_archive).
-- tries and failures: of the same time, or of as much of the last half hour as ten tries take; with fewer in half an hour both are 0.
create function redrive._rates(p_queue text, p_now timestamptz, p_sent bigint, p_done bigint, p_failed bigint, p_dead bigint, p_live bigint,
                               out inflow double precision, out outflow double precision, out tries bigint, out failures bigint)
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    s redrive.sample;
    f redrive.sample;
    v_sec double precision;
    v_missing bigint;
begin
    select * into s from redrive.sample r where r.queue = p_queue and r.at <= p_now - interval '240 seconds' order by r.at desc limit 1;
    if not found then
        select * into s from redrive.sample r where r.queue = p_queue and r.at <= p_now - interval '30 seconds' order by r.at limit 1;
    end if;
    if not found or p_sent < s.sent or p_done < s.done or p_failed < s.failed or p_dead < s.dead then
        return;
    end if;
    v_sec := extract(epoch from p_now - s.at);
    v_missing := (p_sent - s.sent) - (p_live - s.live);
    inflow := (p_sent - s.sent) / v_sec;
    outflow := greatest((p_done - s.done) + (p_dead - s.dead), v_missing, 0) / v_sec;
    select * into f from redrive.sample r
     where r.queue = p_queue and r.at between p_now - interval '30 minutes' and s.at and r.done <= p_done and r.failed <= p_failed
       and (p_done - r.done) + (p_failed - r.failed) >= 10
     order by r.at desc limit 1;
    if f.queue is null then
        f := s;
    end if;
    tries := (p_done - f.done) + (p_failed - f.failed);
    failures := p_failed - f.failed;
    if tries < 10 and exists (select from redrive.sample r where r.queue = p_queue and r.at <= p_now - interval '29 minutes') then
        tries := 0;
        failures := 0;
    end if;
end
$$;
revoke all on function redrive._rates(text, timestamptz, bigint, bigint, bigint, bigint, bigint) from public;
