"""The command `interlock` in a process of its own, which has not to import everything anew."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.forks import FORKS

_SECONDS = 60.0


@dataclass(frozen=True)
class Ended:
    """What a command left: its exit code and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def interlock(words: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Ended:
    """Runs the command to its end, with nothing to read."""
    with tempfile.TemporaryDirectory() as home:
        out, err = Path(home, "out"), Path(home, "err")
        process = FORKS.Process(target=_main, args=(list(words), cwd, dict(env), out, err))
        process.start()
        process.join(_SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
        assert process.exitcode is not None
        return Ended(process.exitcode, out.read_text(), err.read_text())


def _main(words: list[str], cwd: Path, env: dict[str, str], out: Path, err: Path) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    for number, path in ((0, Path(os.devnull)), (1, out), (2, err)):
        mode = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT
        os.dup2(os.open(path, mode, 0o600), number)
    sys.argv = ["interlock", *words]
    from bot.cli import main

    main()
