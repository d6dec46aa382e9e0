-- _vault: a secret of Vault, without white space around it. Raises, naming it, where there is none: what is null would go on silently,
-- and pg_net leaves out a header that is.
create function redrive._vault(p_name text) returns text
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_secret text;
begin
    if coalesce(p_name, '') = '' then
        perform redrive._refuse('name the secret of Vault');
    elsif to_regclass('vault.decrypted_secrets') is null then
        raise exception 'Vault is not installed in this database, so it has no secret %; run: create extension supabase_vault', p_name
            using errcode = '55000';
    end if;
    execute 'select btrim(s.decrypted_secret, E'' \t\r\n'') from vault.decrypted_secrets s where s.name = $1' into v_secret using p_name;
    if v_secret is null then
        raise exception 'Vault has no secret %; run: redrive supabase secrets set %', p_name, p_name using errcode = '55000';
    elsif v_secret = '' then
        raise exception 'Vault''s secret % is empty; run: redrive supabase secrets set %', p_name, p_name using errcode = '55000';
    end if;
    return v_secret;
end
$$;
revoke all on function redrive._vault(text) from public;
