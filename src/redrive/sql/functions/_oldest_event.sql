-- _oldest_event: how long an event of this source that could be handled has been waiting: since its message is due; since it was
-- received where there is no message any more. One that waits for its time, or is at work, does not wait for us: an event that
-- was sent again is not as old as it looks. Of the 1,000 oldest. 0 with none.
create function redrive._oldest_event(p_source text, p_now timestamptz) returns double precision
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text;
    v_ids bigint[];
    v_times timestamptz[];
    v_oldest timestamptz;
    v_since timestamptz;
begin
    for v_queue, v_ids, v_times in
        select e.queue, array_agg(e.msg_id), array_agg(e.received_at)
          from (select e.queue, e.msg_id, e.received_at from redrive.webhook_event e
                 where e.source = p_source and e.status = 'received' order by e.received_at limit 1000) e
         group by e.queue
    loop
        if to_regclass(format('pgmq.%I', 'q_' || v_queue)) is null then
            select min(t) into v_since from unnest(v_times) t;
        else
            execute format('select min(coalesce(m.vt, e.at)) from unnest($1, $2) e(id, at) left join pgmq.%I m on m.msg_id = e.id
                             where m.vt is null or m.vt <= $3', 'q_' || v_queue)
               into v_since using v_ids, v_times, p_now;
        end if;
        v_oldest := least(v_oldest, v_since);
    end loop;
    return coalesce(redrive._age(p_now, v_oldest), 0);
end
$$;
revoke all on function redrive._oldest_event(text, timestamptz) from public;
