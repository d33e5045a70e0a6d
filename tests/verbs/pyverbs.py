"""The tests of pyverbs, as Debian has them, run as an ordinary user: which pass, and whether others than the listed
ones skip."""

import glob
import gzip
import os
import shutil
import tempfile
import time

from processes import Job

HERE = os.path.dirname(os.path.abspath(__file__))
# Of Debian's package rdma-core-doc or python3-pyverbs, by release.
SOURCES = ["/usr/share/doc/rdma-core/tests", "/usr/share/doc/python3-pyverbs/tests"]
# The user `nobody`, where root runs this.
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
LIMIT_S = 120


def listed_skips():
    """The tests that skip, by what is written beside the reason."""
    with open(os.path.join(HERE, "pyverbs-skips"), encoding="ascii") as file:
        lines = [line.strip() for line in file]
    return {line for line in lines if line and not line.startswith("#")}


def unpack(folder):
    """Puts the tests into a folder, as the package's scripts expect them."""
    source = next((path for path in SOURCES if os.path.isdir(path)), None)
    if source is None:
        return False
    tests = os.path.join(folder, "tests")
    os.mkdir(tests)
    for path in glob.glob(os.path.join(source, "*.py*")):
        name = os.path.basename(path).removesuffix(".gz")
        opened = gzip.open(path) if path.endswith(".gz") else open(path, "rb")
        with opened as packed, open(os.path.join(tests, name), "wb") as plain:
            shutil.copyfileobj(packed, plain)
    for path in (folder, tests):
        os.chmod(path, 0o755)
    return True


def run(command, environment, report):
    """Adds one case for each test: `command` runs a program over Weft."""
    with tempfile.TemporaryDirectory(prefix="weft-pyverbs-") as folder:
        if not unpack(folder):
            report.add("skipped", "pyverbs", 0, "python3-pyverbs has no tests here")
            return
        program = shutil.copy(os.path.join(HERE, "pyverbs-tests"), folder)
        began = time.monotonic()
        user = AS_NOBODY if os.geteuid() == 0 else []
        job = Job([*command, *user, program], environment, folder)
        ended = job.finish(LIMIT_S, 1)
        text = job.text()
        if ended is None:
            job.process.kill()
            job.process.wait()
        reason, counts = judge(text, listed_skips())
        report.note(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
        report.add("failed" if reason else "passed", "pyverbs", time.monotonic() - began, reason)
        if reason:
            report.show(text)


def judge(text, skips):
    """What is wrong with what the tests have said; nothing if they all passed, or are listed as skipped."""
    results = [line.split("\t") for line in text.splitlines() if line.count("\t") == 2]
    counts = {outcome: sum(result[1] == outcome for result in results) for outcome in ("passed", "failed", "skipped")}
    failed = [name for name, outcome, _ in results if outcome == "failed"]
    surplus = [f"{name} ({why})" for name, outcome, why in results if outcome == "skipped" and name not in skips]
    wrong = []
    if failed:
        wrong.append(f"failed: {' '.join(failed)}")
    if surplus:
        wrong.append(f"skipped, and not listed in tests/verbs/pyverbs-skips: {'; '.join(surplus)}")
    if text.splitlines()[-1:] != ["end"]:
        wrong.append("the tests ended before their end")
    if not counts["passed"]:
        wrong.append("none has passed")
    return ". ".join(wrong), counts
