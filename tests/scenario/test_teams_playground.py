"""`make playground`, clicked through in headless Chromium: an outside judge of what Teams is sent.

Microsoft's Agents Playground and the browser's driver are installed once into
~/.cache/interlock-tests; where they cannot be, or there is no Chromium, this skips."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from bot.demo.effects import Effects
from examples import playground
from tests.fakes.mcp.process import free_port
from tests.integration.test_mcp_judges import CACHE, install

DRIVER = "playwright-core@1.61.1"
PERSON = Path(__file__).with_name("playground.mjs")
CLICKING = 90.0  # seconds


@pytest.fixture
def home() -> Path:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None or _chromium() is None:
        pytest.skip("the Agents Playground needs node, npm and chromium, which are not installed")
    home = CACHE / "m365agentsplayground@0.2.28"
    install(home, home / "installed", [*playground.installing(npm, home), DRIVER])
    return home


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


async def test_a_mention_in_the_playground_is_approved_and_a_form_filled_in(
    home: Path, tmp_path: Path
) -> None:
    bot, page = free_port(), free_port()
    app = playground.open_app(tmp_path)
    async with app.started():
        playground.open_teams(app)
        serving = asyncio.create_task(app.serve(host="127.0.0.1", port=bot))
        async with playground.running(home, tmp_path, bot=bot, page=page) as address:
            person = await asyncio.create_subprocess_exec(
                *("node", str(PERSON), str(home), address, str(_chromium()), str(tmp_path)),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            try:
                said, _ = await asyncio.wait_for(person.communicate(), CLICKING)
            finally:
                if person.returncode is None:
                    person.kill()
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)
    assert person.returncode == 0, said.decode()
    assert Effects(tmp_path).count() == {"restart_service": 1, "open_ticket": 1}
