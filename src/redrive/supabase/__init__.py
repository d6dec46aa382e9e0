"""Supabase: what a project there needs of redrive, written as its migrations, functions and settings.

Nothing else in redrive imports this package but the command line: without Supabase the same is done by
`redrive migrate`, the worker's own scheduler, and grants.
"""
