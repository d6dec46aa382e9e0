-- discard: dead letters that will not be sent again; kept in the dead-letter archive as discarded. Returns their ids.
-- The webhook event of one becomes ignored, its last_error kept behind 'discarded: '.
-- part: operate
create function redrive.discard(p_queue text, p_msg_ids bigint[]) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue;
    v_dlq text := 'q_' || p_queue || '_dlq';
    v_ids bigint[];
begin
    select * into q from redrive.queue where queue = p_queue;
    if not found then
        perform redrive._no_queue(p_queue);
    elsif to_regclass(format('pgmq.%I', v_dlq)) is null then
        raise exception 'the dead-letter queue of % is missing; run: redrive queue create %', p_queue, p_queue using errcode = 'RD002';
    end if;
    execute format('select array_agg(m.msg_id) from (select m.msg_id from pgmq.%I m where m.msg_id = any ($1)
                                                      order by m.msg_id for update skip locked) m', v_dlq)
       into v_ids using p_msg_ids;
    if v_ids is not null then
        if q.inbox then
            perform redrive._discard_events(q, v_ids);
        end if;
        perform redrive._close_dead(q, v_ids, 'discarded');
    end if;
    return query select unnest(v_ids);
end
$$;
revoke all on function redrive.discard(text, bigint[]) from public;
