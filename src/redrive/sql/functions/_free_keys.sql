-- _free_keys: these messages no longer hold their keys. Never waits.
create function redrive._free_keys(p_queue text, p_keys text[], p_owners bigint[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    execute 'with mine as (
                 select k.key from redrive.key k
                  where k.queue = $1 and k.key = any ($2) and k.state = ''running'' and k.owner_msg = any ($3)
                  order by k.key for update skip locked)
             delete from redrive.key k using mine where k.queue = $1 and k.key = any ($2) and k.key = mine.key'
      using p_queue, p_keys, p_owners;
end
$$;
revoke all on function redrive._free_keys(text, text[], bigint[]) from public;
