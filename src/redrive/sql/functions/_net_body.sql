-- _net_body: an alert as Slack's incoming webhooks take it, as Discord's do for their hosts. Nothing in it can ping anybody.
create function redrive._net_body(p_url text, p_event text, p_body jsonb) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
declare
    v_text text := format(E'%s %s: %s\n%sDatabase %s.',
        case p_event when 'firing' then 'FIRING' when 'reminder' then 'STILL FIRING' when 'resolved' then 'RESOLVED' else 'TEST' end,
        concat_ws(' ', p_body ->> 'rule', nullif(p_body ->> 'subject', '')), p_body ->> 'summary',
        coalesce('Look further: ' || (p_body ->> 'command') || E'\n', ''), p_body ->> 'database');
begin
    if p_url ~* '^https?://([a-z0-9-]+\.)?discord(app)?\.com/' and p_url !~* '/slack([?#]|$)' then
        return jsonb_build_object('content', left(v_text, 1900), 'allowed_mentions', jsonb_build_object('parse', '[]'::jsonb));
    end if;
    return jsonb_build_object('text', replace(replace(replace(left(v_text, 3000), '&', '&amp;'), '<', '&lt;'), '>', '&gt;'));
end
$$;
revoke all on function redrive._net_body(text, text, jsonb) from public;
