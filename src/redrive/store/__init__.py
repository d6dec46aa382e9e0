"""What is asked of Postgres: connections, the embedded server, migrations, and one small module a noun."""
