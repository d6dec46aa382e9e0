-- _read_queues: the gauges of the queues; and what was counted is kept as a sample, for the rates of the next hour. A queue that is locked
-- for a moment is not unreadable: nothing is said of it.
create function redrive._read_queues(p_now timestamptz) returns setof redrive._reading
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    m record;
    v_words jsonb;
begin
    for m in select r as q, d.* from redrive._measured(null) d join redrive.queue r on r.queue = d.queue order by d.queue loop
        return query select 'unreadable', m.queue, case when not m.locked then (m.problem is not null)::integer::double precision end,
                            jsonb_build_object('problem', m.problem);
        v_words := redrive._words_of(m.q, m.g, m.workers, m.last_seen, p_now);
        return query select v.key, m.queue, v.value::double precision, v_words from jsonb_each_text(m.gauges) v;
        if m.g ->> 'sent' is not null then
            insert into redrive.sample (queue, at, sent, done, failed, dead, live)
                 values (m.queue, p_now, (m.g ->> 'sent')::bigint, m.done, m.failed, m.dead, (m.g ->> 'live')::bigint)
            on conflict do nothing;
        end if;
    end loop;
    delete from redrive.sample s where s.at < p_now - interval '1 hour' or s.at > p_now;
end
$$;
revoke all on function redrive._read_queues(timestamptz) from public;
