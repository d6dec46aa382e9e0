-- why: one message's whole life as JSON, for whoever asks why it does not run: where it is, its failed attempts, who holds it,
-- its key and who holds that, the queue's pause, single flight and workers, how many are due before it, its dead letter, and
-- what it was redriven from and to. No payload. A dead letter's own id is asked for with the name of its queue, <queue>_dlq.
-- message is null where nothing is known; last_id then tells an id that was never given from one that is no longer kept.
-- part: operate, read
create function redrive.why(p_queue text, p_msg_id bigint) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue;
    v_now timestamptz := redrive.clock();
    v_base text := substring(p_queue from '^(.+)_dlq$');
    v_id bigint := p_msg_id;
    v_letter jsonb;
    v_message jsonb;
    v_failures jsonb;
begin
    if v_base is not null and exists (select from redrive.queue r where r.queue = v_base) then
        q := redrive._known(v_base);
        v_letter := redrive._letter(q, null, p_msg_id, null);
        v_id := (v_letter ->> 'msg_id')::bigint;
    else
        q := redrive._known(p_queue);
    end if;
    v_message := redrive._why_message(q, v_id, v_now);
    -- Who works by the article's functions archives a message with no outcome, and leaves an envelope that names it.
    if v_letter is null and v_id is not null and (v_message is null or v_message ->> 'outcome' = 'dead'
                                                  or v_message ->> 'state' = 'archived' and v_message ->> 'outcome' is null) then
        v_letter := redrive._letter(q, v_id, null, (v_message ->> 'archived_at')::timestamptz);
    end if;
    if v_letter is not null and v_message ->> 'state' = 'archived' and v_message ->> 'outcome' is null then
        v_message := v_message || '{"outcome": "dead"}';
    end if;
    -- Of a queue that keeps no archive the letter is all there is, and attempts are kept for a while only.
    v_message := coalesce(v_message, v_letter -> 'message');
    v_failures := coalesce((select jsonb_agg(to_jsonb(a) - 'queue' - 'msg_id' - 'traceback' order by a.read_ct)
                              from (select * from redrive.attempt a where a.queue = q.queue and a.msg_id = v_id order by a.read_ct desc limit 100) a),
                           v_letter -> 'failures', '[]');
    return jsonb_build_object(
        'queue', q.queue, 'msg_id', v_id, 'now', v_now, 'message', v_message, 'failures', v_failures,
        'policy', redrive._why_policy(q), 'letter', v_letter - 'message' - 'failures', 'redriven', redrive._why_redriven(q.queue, v_id),
        'event', (select jsonb_build_object('id', e.id, 'source', e.source, 'event_id', e.event_id, 'type', e.type, 'status', e.status)
                    from redrive.webhook_event e where e.id = (v_message ->> 'event')::uuid),
        'key_held', (select to_jsonb(k) - 'queue' - 'result' from redrive.key k where k.queue = q.queue and k.key = v_message ->> 'key'),
        'flight', (select jsonb_build_object('holder', l.holder, 'lease_until', l.lease_until, 'acquired_at', l.acquired_at)
                     from redrive.lease l where q.single_flight and l.name = 'queue:' || q.queue and l.lease_until > v_now),
        'last_id', redrive._last_id(q.queue))
        || redrive._why_workers(q.queue, v_id, v_now);
end
$$;
revoke all on function redrive.why(text, bigint) from public;
