-- _keep: for how many seconds this is kept; null where it goes by a time of its own.
create function redrive._keep(p_what text) returns numeric
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v_default constant jsonb := '{"failures": 2592000, "keys": null, "sent_keys": null, "events": 7776000, "refused": 34560000,
        "fetched": 7776000, "runs": 2592000, "alerts": 7776000, "workers": 86400}'::jsonb;
begin
    if p_what is null or not v_default ? p_what then
        perform redrive._refuse(format('there is no %s to keep; there are: archive, letters, %s', coalesce(p_what, 'null'),
            (select string_agg(k, ', ' order by k) from jsonb_object_keys(v_default) k)));
    end if;
    return coalesce((select r.keep_sec from redrive.retention_rule r where r.what = p_what), (v_default ->> p_what)::numeric);
end
$$;
revoke all on function redrive._keep(text) from public;
