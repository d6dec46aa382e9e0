-- _why_redriven: the messages that one was redriven from, the first ancestor first, and those it was redriven to, in their order.
create function redrive._why_redriven(p_queue text, p_id bigint) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp
as $$
    with recursive before as (
        select 1 as step, r.from_msg as msg_id, r.at from redrive.redriven r where r.queue = p_queue and r.msg_id = p_id
        union all
        select b.step + 1, r.from_msg, r.at from before b join redrive.redriven r on r.queue = p_queue and r.msg_id = b.msg_id where b.step < 100),
    after as (
        select 1 as step, r.msg_id, r.at from redrive.redriven r where r.queue = p_queue and r.from_msg = p_id
        union all
        select a.step + 1, r.msg_id, r.at from after a join redrive.redriven r on r.queue = p_queue and r.from_msg = a.msg_id where a.step < 100)
    select jsonb_build_object(
        'from', coalesce((select jsonb_agg(jsonb_build_object('msg_id', b.msg_id, 'at', b.at) order by b.step desc) from before b), '[]'),
        'to', coalesce((select jsonb_agg(jsonb_build_object('msg_id', a.msg_id, 'at', a.at) order by a.step) from after a), '[]'))
$$;
revoke all on function redrive._why_redriven(text, bigint) from public;
