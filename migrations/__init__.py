"""The history of the tables, for alembic. `zstci migrate` runs it, on SQLite and PostgreSQL alike."""
