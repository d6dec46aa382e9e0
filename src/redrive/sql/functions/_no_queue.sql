-- _no_queue: raise RD001 for a queue redrive does not know, with the way out.
create function redrive._no_queue(p_queue text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if p_queue is null then
        raise exception 'queue name is null; name a queue' using errcode = '22023';
    elsif p_queue <> lower(p_queue) and exists (select from redrive.queue q where q.queue = lower(p_queue)) then
        raise exception 'queue % does not exist; queue % does: write its name in lower case', p_queue, lower(p_queue) using errcode = 'RD001';
    elsif to_regclass(format('pgmq.%I', 'q_' || lower(p_queue))) is not null
          and not exists (select from redrive.queue q where q.queue = p_queue) then
        raise exception 'queue % exists in pgmq but redrive has not adopted it; run: redrive queue adopt %', p_queue, p_queue
            using errcode = 'RD001';
    end if;
    raise exception 'queue % does not exist; run: redrive queue create %', p_queue, p_queue using errcode = 'RD001';
end
$$;
revoke all on function redrive._no_queue(text) from public;
