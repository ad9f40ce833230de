"""Alembic's entry: runs on the connection that `storage.migrate` hands over."""

from alembic import context

from storage.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=connection.dialect.name == "sqlite",
)
context.run_migrations()
