-- queue_archive: the article's archive: this message is done. Fenced when p_read_ct is given (the delivery that read it).
-- False when it is gone, or another delivery owns it.
-- part: work
create function redrive.queue_archive(p_queue_name text, p_msg_id bigint, p_read_ct integer default null) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue := redrive._known(p_queue_name);
    v_id bigint;
begin
    perform redrive._ensure_archive(q);
    execute format('select m.msg_id from pgmq.%I m where m.msg_id = $1 and ($2 is null or m.read_ct = $2) for update', 'q_' || q.queue)
       into v_id using p_msg_id, p_read_ct;
    if v_id is null then
        return false;
    end if;
    perform redrive._finish(q, array[v_id], 'done', null);
    return true;
end
$$;
revoke all on function redrive.queue_archive(text, bigint, integer) from public;
