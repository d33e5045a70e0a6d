"""The own tests of the crate `ibverbs`: which pass over Weft, and whether others than the listed ones do not.

The crate that crates.io has comes without them, so they are those of its repository, at a commit. They use names of
verbs.h that Debian 12 does not have, so the crate's build makes its bindings of the rdma-core that the repository
names. The sources and what is built of them stay in .cache.
"""

import functools
import json
import os
import re
import shutil
import subprocess
import time

import bindings
import packages
from processes import Job

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.abspath(os.path.join(HERE, "..", "..", ".cache", "verbs", "rust-ibverbs"))
SOURCE = "https://github.com/jonhoo/rust-ibverbs"
COMMIT = "2958654eeb75c618693b2674dea034429ac10ceb"
LIMIT_S = 300
COUNTS = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored; \d+ measured; (\d+) filtered out",
                    re.MULTILINE)


def listed_failures():
    """The tests that fail, by what is written beside the reason."""
    with open(os.path.join(HERE, "loopback-failures"), encoding="ascii") as file:
        lines = [line.strip() for line in file]
    return {line for line in lines if line and not line.startswith("#")}


def run(place, name, report):
    """One case: `place` runs a program over Weft."""
    program, reason = build()
    if reason:
        report.add("skipped", name, 0, reason)
        return
    began = time.monotonic()
    # One at a time: each waits 5 s for a completion, and no longer.
    words = [program, "--include-ignored", "--test-threads=1"]
    job = Job(place.command(place.client, words), place.environment)
    ended = job.finish(LIMIT_S, 1)
    text = job.text()
    if ended is None:
        job.process.kill()
        job.process.wait()
    reason, said = judge(text, listed_failures())
    report.note(said)
    report.add("failed" if reason else "passed", name, time.monotonic() - began, reason)
    if reason:
        report.show(text)


def judge(text, listed):
    """What is wrong with what the tests have said; nothing if they all ran, and the listed ones alone have failed."""
    found = COUNTS.findall(text)
    if not found:
        return "the tests ended before their end", "no counts"
    passed, failed, ignored, left_out = map(int, found[-1])
    # The last list is that of names alone.
    names = set(re.findall(r"^    (\w+)$", text.rpartition("\nfailures:\n")[2], re.MULTILINE)) if failed else set()
    wrong = []
    if len(names) != failed:
        wrong.append(f"{failed} failed, but {len(names)} are named")
    if names - listed:
        wrong.append(f"failed, and not listed in tests/verbs/loopback-failures: {' '.join(sorted(names - listed))}")
    if listed - names:
        wrong.append(f"passed, and listed in tests/verbs/loopback-failures: {' '.join(sorted(listed - names))}")
    if ignored or left_out:
        wrong.append(f"{ignored} ignored, {left_out} left out")
    if not passed:
        wrong.append("none has passed")
    return ". ".join(wrong), f"{passed} passed, {failed} failed, {ignored} skipped"


@functools.cache
def build():
    """The program with the tests, and why there is none. It is built once, for all carriers."""
    reason = packages.get({**bindings.PACKAGES, "git": "git"})
    if reason:
        return "", reason
    if not shutil.which("cargo"):
        return "", "there is no cargo here"
    for fetch in (fetch_crate, fetch_rdma_core):
        fetched = fetch()
        if fetched.returncode != 0:
            return "", f"the crate's source cannot be had: {bindings.last_line(fetched.stderr)}"
    built = bindings.cargo("test", "--locked", "--package", "ibverbs", "--test", "loopback", "--no-run",
                           "--message-format", "json-render-diagnostics", folder=FOLDER)
    if built.returncode != 0:
        return "", f"it does not build: {bindings.last_line(built.stderr)}"
    made = (json.loads(line) for line in built.stdout.splitlines() if line.startswith("{"))
    programs = [message["executable"] for message in made if message.get("executable")]
    return programs[-1], ""


def fetch_crate():
    os.makedirs(FOLDER, exist_ok=True)
    there = git("rev-parse", "--verify", "--quiet", f"{COMMIT}^{{commit}}")
    commands = [["init", "--quiet"], ["fetch", "--quiet", "--depth", "1", SOURCE, COMMIT]] if there.returncode else []
    return git_all([*commands, ["checkout", "--quiet", "--force", "--detach", COMMIT]])


def fetch_rdma_core():
    return git("submodule", "--quiet", "update", "--init", "--depth", "1")


def git_all(commands):
    for command in commands:
        ended = git(*command)
        if ended.returncode != 0:
            break
    return ended


def git(*words):
    # Without the folder's own name git would take this project for the repository.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": os.path.dirname(FOLDER), "GIT_TERMINAL_PROMPT": "0"}
    return bindings.run(["git", *words], FOLDER, environment)
