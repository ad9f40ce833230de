"""The bot in a browser without an account of Teams: `make playground`.

It runs on the embedded default with a scripted model, in Microsoft's Agents Playground, which npm
installs: pre-release software that is licensed for evaluation and that is no part of Interlock."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp

from bot import log
from bot.app import App
from bot.approvers import Policies, Policy
from bot.core import Agent
from bot.demo.alone import SCRIPT
from bot.demo.effects import Effects, tools
from bot.loopback import INSECURE_LOCAL

PACKAGE: Final = "@microsoft/m365agentsplayground@0.2.28"
HOME: Final = Path("build/playground")  # which git ignores
PORT: Final = 3978  # the bot's; the Playground's default as well
PAGE_PORT: Final = 56150
STARTING: Final = 60.0  # seconds

TENANT: Final = "72f988bf-0000-4000-8000-00000000000a"
PEOPLE: Final = ("Ana", "Ben", "Cyn", "Dov", "Eve", "Fay")  # with fewer it does not start
_OBJECT: Final = "0b1ec700-0000-4000-8000-00000000000"


class NotStarted(Exception):
    """One sentence."""


def installed(home: Path) -> bool:
    return (_program(home)).exists()


def installing(npm: str, home: Path) -> list[str]:
    options = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    return [npm, "install", *options, "--loglevel=error", "--prefix", str(home), PACKAGE]


def open_app(directory: Path) -> App:
    """The product on the embedded default. The one who clicks decides, also what they asked for;
    the Playground has no chats with others, to whom cards could go as well."""
    approvers = frozenset({f"teams:{TENANT}/{_person(0)['aadObjectId']}"})
    return App(
        database=f"sqlite:///{directory / 'interlock.db'}",
        agents={"demo": Agent(name="demo", model=SCRIPT, tools=tools(Effects(directory)))},
        policies=Policies([Policy(name="demo", approvers=approvers, self_approval=True)]),
    )


def open_teams(app: App) -> None:
    app.open_surface("teams", {"insecure_local": INSECURE_LOCAL})


def settings() -> dict[str, Any]:
    """What the Playground pretends: a tenant, a team and its people."""
    people = [_person(number) for number in range(len(PEOPLE))]
    return {
        "version": "0.1.0",
        "tenantId": TENANT,
        "bot": {"id": "28:0b070000-0000-4000-8000-000000000001", "name": "Interlock"},
        "currentUser": people[0],
        "users": people[1:],
        "personalChat": {"id": "a:personal"},
        "groupChat": {"id": "19:group@thread.v2", "name": "Release"},
        "team": {
            "id": "19:team@thread.tacv2",
            "aadGroupId": f"{_OBJECT}f",
            "name": "Operations",
            "channels": [{"id": "19:incidents@thread.tacv2", "name": "Incidents"}],
        },
    }


def _person(number: int) -> dict[str, str]:
    name, who = PEOPLE[number], f"{_OBJECT}{number}"
    return {
        "id": who,  # Teams tells of a person by either id, the Playground by this one alone
        "name": name,
        "givenName": name,
        "surname": "Example",
        "email": f"{name.lower()}@example.com",
        "userPrincipleName": f"{name.lower()}@example.com",
        "aadObjectId": who,
    }


def _program(home: Path) -> Path:
    return home / "node_modules" / "@microsoft" / "m365agentsplayground" / "cli.js"


@contextlib.asynccontextmanager
async def running(home: Path, directory: Path, *, bot: int, page: int) -> AsyncIterator[str]:
    """The address of the Playground's page, while it runs. Raises NotStarted."""
    file = directory / ".m365agentsplayground.yml"  # JSON is YAML
    await asyncio.to_thread(file.write_text, json.dumps(settings()))
    command = ["node", str(_program(home).absolute()), "start", "-c", "msteams"]
    command += ["-e", f"http://127.0.0.1:{bot}/api/messages", "-p", str(page)]
    process = await asyncio.create_subprocess_exec(
        *command,
        "--disable-telemetry",
        cwd=directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for us, who then end it
    )
    try:
        async with asyncio.timeout(STARTING):
            while not await _answers(f"http://127.0.0.1:{page}"):
                if process.returncode is not None:
                    raise NotStarted(f"The Playground ended: {_reason(directory)}")
                await asyncio.sleep(0.1)
        yield f"http://localhost:{page}"
    except TimeoutError:
        raise NotStarted(f"The Playground did not listen on {page} in time.") from None
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _answers(address: str) -> bool:
    """Whether it does: it listens for a moment before it has read its configuration."""
    try:
        async with aiohttp.ClientSession() as http, http.get(address) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


def _reason(directory: Path) -> str:
    """Why it ended, which it writes to its log alone."""
    logs = [path.read_text() for path in directory.glob("devTools/*.log")]
    told = [line for log in logs for line in log.splitlines() if line.startswith("error Reason:")]
    return told[-1] if told else "it does not say why."


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


async def run(home: Path, directory: Path) -> None:
    """Both, until Ctrl-C. Raises NotStarted."""
    app = open_app(directory)
    async with app.started():
        open_teams(app)
        async with running(home, directory, bot=PORT, page=PAGE_PORT) as address:
            print(
                f"Open {address}, go to a channel, and mention the bot: @Interlock checkout is "
                "slow.\n"
                "The Playground listens on every interface of this machine, and whoever reaches "
                "it is let in.\n"
                "Ctrl-C ends it and the bot.",
                flush=True,
            )
            await app.serve(host="127.0.0.1", port=PORT)


async def main() -> int:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        print("The Playground needs node and npm.", file=sys.stderr)
        return 1
    for port in (PORT, PAGE_PORT):
        if _listens(port):
            print(f"Something listens on port {port} already: end it first.", file=sys.stderr)
            return 1
    if not installed(HOME):
        print("npm installs Microsoft's Agents Playground (evaluation only, see its LICENSE) ...")
        HOME.mkdir(parents=True, exist_ok=True)
        process = await asyncio.create_subprocess_exec(*installing(npm, HOME))
        if await process.wait():
            print("npm could not install the Playground.", file=sys.stderr)
            return 1
    log.configure(level=40)
    with tempfile.TemporaryDirectory(prefix="interlock-playground-") as directory:
        try:
            await run(HOME, Path(directory))
        except NotStarted as failure:
            print(failure, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
