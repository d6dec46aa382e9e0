-- _net_sink: the webhook that the database itself tells, by pg_net: the secret alerts_webhook of Vault. Where there is one, pg_net is
-- a sink like another, and its name is kept fresh. Neither pg_net nor Vault, or no secret: url is null. problem: why it cannot be read.
create function redrive._net_sink(p_now timestamptz, out url text, out problem text)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if to_regclass('net._http_response') is null or to_regclass('vault.decrypted_secrets') is null then
        return;
    end if;
    execute 'select nullif(trim(s.decrypted_secret), '''') from vault.decrypted_secrets s where s.name = ''alerts_webhook'' limit 1' into url;
    if url is not null then
        insert into redrive.alert_sink as s (name, kind, seen_at) values ('pg_net', 'pg_net', p_now)
        on conflict (name) do update set seen_at = excluded.seen_at;
    end if;
exception when others then
    url := null;
    problem := sqlerrm;
end
$$;
revoke all on function redrive._net_sink(timestamptz) from public;
