"""Recognition: the queries for what the articles' recipe made in a database, and for what only has its names.

In braces stands what `recipe` puts there; `does` is a regular expression for a function's text.
"""

from __future__ import annotations

# Of a function: in small letters, without comments and double quotes.
_BODY = (
    "lower(regexp_replace(regexp_replace(replace(pg_get_functiondef(p.oid), '\"', ''), "
    "'/[*].*?[*]/', ' ', 'g'), '--[^\\n]*', ' ', 'g'))"
)

# What the recipe made: oid, signature.
FOUND_FUNCTIONS = f"""
           select p.oid, w.signature
             from ({{of_recipe}}) w (signature, does)
             join pg_catalog.pg_proc p on p.oid = to_regprocedure(w.signature)
            where coalesce(obj_description(p.oid, 'pg_proc'), '') !~ '[(]redrive [0-9a-f]{{16}}[)]$'
              and case p.prokind when 'f' then {_BODY} ~ w.does end
       """

# What has such a signature, and is neither the recipe's nor ours.
OTHER_FUNCTIONS = f"""
           select w.signature, n.nspname as schema
             from ({{of_recipe}}) w (signature, does)
             join pg_catalog.pg_proc p on p.oid = to_regprocedure(w.signature)
             join pg_catalog.pg_namespace n on n.oid = p.pronamespace
            where coalesce(obj_description(p.oid, 'pg_proc'), '') !~ '[(]redrive [0-9a-f]{{16}}[)]$'
              and case p.prokind when 'f' then {_BODY} !~ w.does else true end
       """

# A table of leases has both columns, or the recipe's function writes to it.
FOUND_TABLES = """
           select w.name, w.kept
             from (values
                 ('public.processed_jobs', 'idempotency_key', null, null, 'processed_jobs_before_redrive'),
                 ('public.worker_leases', 'worker_name', 'lease_until',
                  'public.claim_worker_lease(text,integer)', 'worker_leases_before_redrive')
                 ) w (name, has, and_has, writer, kept)
             join pg_catalog.pg_class c on c.oid = to_regclass(w.name) and c.relkind in ('r', 'p')
             join pg_catalog.pg_attribute a
               on a.attrelid = c.oid and a.attname = w.has and not a.attisdropped
            where w.and_has is null
               or exists (select from pg_catalog.pg_attribute b
                           where b.attrelid = c.oid and b.attname = w.and_has and not b.attisdropped)
               or exists (select from ({functions}) f where f.signature = w.writer)
       """
