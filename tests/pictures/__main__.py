"""Draws the scenes with npm's slack-blocks-to-jsx and adaptivecards, and Debian's chromium."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.pictures import scenes, teams_scenes

HERE = Path(__file__).parent


def main(out: Path) -> int:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None or shutil.which("npm") is None:
        print("Pictures need npm and chromium: apt-get install npm chromium fonts-noto-color-emoji")
        return 1
    work = out / "work"
    work.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "package.json", work)
    shown = {"render": scenes.scenes(), "render_teams": teams_scenes.scenes()}
    for name, drawn in shown.items():
        shutil.copy(HERE / f"{name}.mjs", work)
        (work / f"{name}.json").write_text(json.dumps(drawn, ensure_ascii=False))
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    subprocess.run(["npm", "install", *quiet], cwd=work, check=True)
    wrong = 0
    for name in shown:
        draw = ["node", f"{name}.mjs", f"{name}.json", "..", chromium]
        wrong |= subprocess.run(draw, cwd=work, check=False).returncode
    for name, faults in teams_scenes.wrong().items():
        print(f"WRONG {name}: {faults}")
        wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(Path("build/pictures").absolute()))
