-- set_policy: an operator's override of a queue's policy; p_reset names overrides to drop. Returns the effective policy.
-- part: operate
create function redrive.set_policy(p_queue text, p_override jsonb default '{}', p_reset text[] default '{}') returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform redrive._check_policy(p_override);
    perform redrive._check_policy(coalesce((select jsonb_object_agg(r, case when r = 'backoff' then '{}' when r in ('key_field') then 'null'
        when r in ('archive', 'notify', 'paused', 'single_flight') then 'true' else '1' end::jsonb) from unnest(p_reset) r), '{}'));
    update redrive.queue q set override = (q.override || p_override) - p_reset where q.queue = p_queue;
    if not found then
        perform redrive._no_queue(p_queue);
    end if;
    perform redrive._apply_policy(p_queue);
    return redrive.queue_policy(p_queue);
end
$$;
revoke all on function redrive.set_policy(text, jsonb, text[]) from public;
