-- _close_dead: dead letters leave their queue for its archive, outcome redriven or discarded. The caller holds their rows.
create function redrive._close_dead(q redrive.queue, p_ids bigint[], p_outcome text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    d redrive.queue := q;
begin
    d.queue := q.queue || '_dlq';
    d.key_field := null;
    d.archive := true;
    d.inbox := false;
    d.has_headers := redrive._has_column(to_regclass(format('pgmq.%I', 'q_' || d.queue)), 'headers');
    d.has_last_read_at := redrive._has_column(to_regclass(format('pgmq.%I', 'q_' || d.queue)), 'last_read_at');
    perform redrive._finish(d, p_ids, p_outcome, null);
end
$$;
revoke all on function redrive._close_dead(redrive.queue, bigint[], text) from public;
