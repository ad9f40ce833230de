"""Draws the scenes with npm's slack-blocks-to-jsx and Debian's chromium."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.pictures.scenes import scenes

HERE = Path(__file__).parent


def main(out: Path) -> int:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None or shutil.which("npm") is None:
        print("Pictures need npm and chromium: apt-get install npm chromium fonts-noto-color-emoji")
        return 1
    work = out / "work"
    work.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "render.mjs"):
        shutil.copy(HERE / name, work / name)
    (work / "scenes.json").write_text(json.dumps(scenes(), ensure_ascii=False))
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    subprocess.run(["npm", "install", *quiet], cwd=work, check=True)
    draw = ["node", "render.mjs", "scenes.json", "..", chromium]
    return subprocess.run(draw, cwd=work, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path("build/pictures").absolute()))
