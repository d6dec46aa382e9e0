-- queue_policy: the effective policy of a queue as JSON: override over declared over default.
-- part: work, operate, read
create function redrive.queue_policy(p_queue text) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_default constant jsonb := '{"max_attempts": 5, "visibility_timeout": 60, "timeout": 3600,
        "backoff": {"base": 30, "factor": 2, "cap": 3600, "jitter": 0.2}, "concurrency": null, "single_flight": false,
        "key_field": "idempotency_key", "key_retention": 2592000, "archive": true,
        "archive_retention": 2592000, "archive_max_rows": null, "archive_max_bytes": null, "notify": true, "paused": false}'::jsonb;
    q redrive.queue;
begin
    select * into q from redrive.queue where queue = p_queue;
    if not found then
        perform redrive._no_queue(p_queue);
    end if;
    -- What pgmq archived before redrive came is not redrive's to delete.
    return v_default || case when q.adopted then '{"archive_retention": null}' else '{}' end::jsonb || q.declared || q.override
        || jsonb_build_object('backoff', (v_default -> 'backoff') || coalesce(q.declared -> 'backoff', '{}') || coalesce(q.override -> 'backoff', '{}'));
end
$$;
revoke all on function redrive.queue_policy(text) from public;
