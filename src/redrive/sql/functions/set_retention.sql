-- set_retention: keep this for so many seconds; null: the default again. Returns what holds. An archive is kept by its queue's
-- policy (set_policy: archive_retention, archive_max_rows, archive_max_bytes), a key by its queue's key_retention.
-- part: operate
create function redrive.set_retention(p_what text, p_keep numeric) returns numeric
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if p_what in ('archive', 'letters') then
        perform redrive._refuse('archives are kept by each queue''s policy; run: redrive queue policy QUEUE --set archive_retention=SECONDS');
    elsif p_what in ('keys', 'sent_keys') then
        perform redrive._refuse(format('%s have no age: a key is kept by its queue''s policy; run: redrive queue policy QUEUE --set key_retention=SECONDS', p_what));
    elsif redrive._keep(p_what) is null or p_keep <= 0 or p_keep > 3155760000 then
        perform redrive._refuse(format('%s cannot be kept for %s seconds; give a number above 0, at most 3155760000 (100 years)', p_what, p_keep));
    end if;
    if p_keep is null then
        delete from redrive.retention_rule r where r.what = p_what;
    else
        insert into redrive.retention_rule as r (what, keep_sec) values (p_what, p_keep)
        on conflict (what) do update set keep_sec = excluded.keep_sec;
    end if;
    return redrive._keep(p_what);
end
$$;
revoke all on function redrive.set_retention(text, numeric) from public;
