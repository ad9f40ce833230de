"""What `interlock doctor` looks at: each thing is well or not, with a sentence."""

from __future__ import annotations

from bot.core import ToolSource, ToolsUnavailable
from bot.secrets import ConfigError
from storage.database import Database, DatabaseUnavailable
from storage.migrate import is_current


async def database_health(database: Database) -> tuple[bool, str]:
    where = database.url.render_as_string(hide_password=True)
    try:
        current = await is_current(database)
    except DatabaseUnavailable:
        return False, f"The database {where} does not answer: check `database`."
    finally:
        await database.close()
    if not current and not database.sqlite:
        return False, f"The database {where} needs `interlock db upgrade`."
    return True, f"The database {where} answers."


async def source_health(source: ToolSource) -> tuple[bool, str]:
    """Connects to a server and lists its tools."""
    try:
        await source.start()
        offered = await source.tools()
    except ConfigError as error:
        return False, str(error)
    except ToolsUnavailable:
        return False, f"The server {source.name}: {source.health()}"
    finally:
        await source.stop()
    return True, f"The server {source.name} offers {len(offered)} tools. {source.health()}"
