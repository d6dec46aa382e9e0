-- _post_alerts: deliver to sink pg_net: read what became of the posts of earlier evaluations, then hand the next ones to pg_net, twenty
-- at most. pg_net sends after commit and says how it went in its own table: no answer when the claim is over counts as a failure.
-- Returns why it could not, null where it could. The URL is a secret: no error holds it.
create function redrive._post_alerts(p_url text, p_now timestamptz) returns text
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    d record;
    v_id bigint;
begin
    execute $q$
        select redrive._settle_alerts(array_agg(a.id), array_agg(a.token), array_agg(a.error), array_agg(a.after), $1)
          from (select d.id, d.token, redrive._net_error(r.id is not null, r.status_code, r.timed_out, r.error_msg) as error,
                       substring(lower(r.headers::text)::jsonb ->> 'retry-after' from '^[0-9]{1,5}$')::numeric as after
                  from redrive.alert_delivery d left join net._http_response r on r.id = d.request_id
                 where d.sink = 'pg_net' and d.delivered_at is null and d.gave_up_at is null and d.request_id is not null
                   and (r.id is not null or d.claimed_until <= $1)) a
        having count(*) > 0 $q$ using p_now;
    for d in select * from redrive.claim_alerts(array['pg_net'], 20, 120) c order by c.id loop
        begin
            execute 'select net.http_post(url => $1, body => $2)' into v_id using p_url, redrive._net_body(p_url, d.event, d.body);
            update redrive.alert_delivery x set request_id = v_id where x.id = d.id;
        exception when others then
            perform redrive._settle_alerts(array[d.id], array[d.token], array['pg_net refused it: ' || redrive._without_url(sqlerrm, p_url)], null, p_now);
        end;
    end loop;
    return null;
exception when others then
    return redrive._without_url(sqlerrm, p_url);
end
$$;
revoke all on function redrive._post_alerts(text, timestamptz) from public;
