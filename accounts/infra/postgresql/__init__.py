"""The database backend for PostgreSQL, which `ENGINE` names."""
