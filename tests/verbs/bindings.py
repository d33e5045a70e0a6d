#!/usr/bin/env python3
"""Builds the programs over the crate `ibverbs`: ours, and the example that the crate comes with.

The crate makes its bindings of the sources of rdma-core that it contains: by cmake, and libclang. The first build takes
a minute or more; what it has made stays in .cache. Exit code 77: they can't be built here.
"""

import functools
import glob
import json
import os
import shutil
import subprocess
import sys

import packages

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.abspath(os.path.join(HERE, "..", "..", ".cache", "verbs", "crate"))
PACKAGES = {"cmake": "cmake", "pkg-config": "pkg-config", "gcc": "gcc",
            "/usr/include/infiniband/verbs.h": "libibverbs-dev", "/usr/include/libnl3/netlink/netlink.h": "libnl-3-dev",
            "/usr/include/libnl3/netlink/route/link.h": "libnl-route-3-dev",
            "/usr/lib/llvm-*/lib/libclang.so": "libclang-dev"}
LIMIT_S = 900
CANNOT_BE_HAD = 77


@functools.cache
def build():
    """The two programs, and why there are none. They are built once, for all carriers."""
    reason = packages.get(PACKAGES)
    if reason:
        return "", "", reason
    if not shutil.which("cargo"):
        return "", "", "there is no cargo here"
    os.makedirs(FOLDER, exist_ok=True)
    for file in ("Cargo.toml", "Cargo.lock", "src/main.rs"):
        target = os.path.join(FOLDER, file)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(os.path.join(HERE, "crate", file), target)
    shown = cargo("metadata", "--format-version", "1", "--locked")
    if shown.returncode != 0:
        return "", "", f"cargo cannot get the crate: {last_line(shown.stderr)}"
    known = json.loads(shown.stdout)["packages"]
    home = os.path.dirname(next(package["manifest_path"] for package in known if package["name"] == "ibverbs"))
    examples = os.path.join(FOLDER, "examples")
    os.makedirs(examples, exist_ok=True)
    for example in glob.glob(os.path.join(home, "examples", "loopback.rs")):
        shutil.copyfile(example, os.path.join(examples, "loopback.rs"))
    built = cargo("build", "--locked", "--bins", "--examples")
    if built.returncode != 0:
        return "", "", f"it does not build: {last_line(built.stderr)}"
    output = os.path.join(FOLDER, "target", "debug")
    return os.path.join(output, "ibverbs-loopback"), os.path.join(output, "examples", "loopback"), ""


def cargo(*words, folder=FOLDER):
    return run(["cargo", *words], folder, {**os.environ, "CARGO_TARGET_DIR": os.path.join(folder, "target")})


def run(command, folder, environment):
    try:
        return subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"{' '.join(command[:2])} takes longer than {LIMIT_S} s")


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it says nothing"


def main():
    _, _, reason = build()
    if reason:
        print(f"cannot be had here: {reason}")
    return CANNOT_BE_HAD if reason else 0


if __name__ == "__main__":
    sys.exit(main())
