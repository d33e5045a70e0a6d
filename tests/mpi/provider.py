"""Where Weft's provider is."""

import atexit
import os
import shutil
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TARGET = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release")
PROVIDER_FILE, BUILT_FILE = "libweft-fi.so", "libweft_fi.so"


def provider_directory(directory):
    """A directory where it has the name that libfabric looks for."""
    directory = os.path.abspath(directory)
    if os.path.exists(os.path.join(directory, PROVIDER_FILE)):
        return directory
    built = os.path.join(directory, BUILT_FILE)
    if not os.path.exists(built):
        sys.exit(f"{directory} has neither {PROVIDER_FILE} nor {BUILT_FILE}: cargo build --release --package weft-provider")
    linked = tempfile.mkdtemp(prefix="weft-provider-")
    atexit.register(shutil.rmtree, linked, True)
    os.symlink(built, os.path.join(linked, PROVIDER_FILE))
    return linked
