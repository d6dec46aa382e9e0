-- _words_of: the words that summaries of a queue's gauges may use.
create function redrive._words_of(q redrive.queue, g jsonb, p_workers integer, p_last_seen timestamptz, p_now timestamptz) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select jsonb_build_object(
        'ready', g -> 'ready', 'failed', g -> 'failed', 'max_attempts', q.max_attempts, 'workers', p_workers,
        'paused', case when q.paused then '; it is paused' else '' end,
        'last_seen', coalesce('the last was seen ' || redrive._span(extract(epoch from p_now - p_last_seen)) || ' ago', 'none was ever seen'))
$$;
revoke all on function redrive._words_of(redrive.queue, jsonb, integer, timestamptz, timestamptz) from public;
