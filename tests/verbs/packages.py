"""Debian's packages that cases need."""

import glob
import os
import shutil
import subprocess
import sys


# Debian has ibstat where ordinary users do not search.
os.environ["PATH"] = ":".join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def get(needed):
    """Installs what is missing of `needed` (programs or files, and their packages) as root. Returns why not."""
    missing = lacking(needed)
    if missing and os.geteuid() != 0:
        return f"missing packages; as root: apt-get install {' '.join(missing)}"
    if missing:
        install = ["apt-get", "-q", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", "install",
                   *missing]
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (install, ["apt-get", "-q", "update"], install):
            if lacking(needed):
                subprocess.run(words, env=environment, stdout=sys.stderr, check=False)
    left = lacking(needed)
    return f"apt-get could not install {' '.join(left)}" if left else ""


def lacking(needed):
    return sorted({package for program, package in needed.items() if not has(program)})


def has(program):
    if program.startswith("/"):
        return bool(glob.glob(program))
    return shutil.which(program) is not None
