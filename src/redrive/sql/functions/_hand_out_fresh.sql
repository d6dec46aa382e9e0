-- _hand_out_fresh: the common case in one statement: of the next p_qty due messages, those that were never handed out and
-- have no key. Whatever else stands among them is left, still first in line, to claim's full round.
create function redrive._hand_out_fresh(q redrive.queue, p_qty integer, p_now timestamptz, p_until timestamptz)
returns table (msg_id bigint, read_ct integer, attempt integer, enqueued_at timestamptz, vt timestamptz, due_at timestamptz,
               message jsonb, headers jsonb, key text, isolated boolean)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    for msg_id, read_ct, attempt, enqueued_at, vt, due_at, message, headers, key, isolated in execute format($q$
        with p as materialized (
            select m.ctid as tid, m.vt, m.read_ct = 0 and %s is null as fresh
              from pgmq.%I m where m.vt <= $1 %s order by m.vt limit $2 for update skip locked)
        update pgmq.%I m set vt = $3, read_ct = 1 %s from p where m.ctid = p.tid and p.fresh
        returning m.msg_id, 1, 1, m.enqueued_at, m.vt, p.vt, m.message, %s, null::text, false
        $q$, redrive._part(q, 'key'), 'q_' || q.queue, redrive._part(q, 'small'), 'q_' || q.queue,
             case when q.has_last_read_at then ', last_read_at = $1' else '' end, redrive._part(q, 'headers'))
      using p_now, p_qty, p_until
    loop
        return next;
    end loop;
end
$$;
revoke all on function redrive._hand_out_fresh(redrive.queue, integer, timestamptz, timestamptz) from public;
