# Functions that the scripts share. To be sourced by bash, with the repository's root as working directory.

# Exit code of a step that this machine cannot do, for a reason that it has printed.
CANNOT_BE_HAD=77

# What a step returns when it cannot be done here.
cannot_be_had() {
    echo "cannot be had here: $*"
    return "$CANNOT_BE_HAD"
}

# Where cargo puts what it builds.
target_directory() {
    echo "${CARGO_TARGET_DIR:-target}"
}

# Where tools are that the scripts need and had to build: outside of this folder, for another clone needs the same.
tools_directory() {
    echo "${XDG_CACHE_HOME:-${HOME:-$PWD}/.cache}/weft/tools"
}

# Makes sure that there is a Rust toolchain and a linker.
need_rust() {
    if ! command -v cargo >/dev/null && [ -x "$HOME/.cargo/bin/cargo" ]; then
        PATH="$HOME/.cargo/bin:$PATH"
    fi
    if ! command -v cargo >/dev/null; then
        echo "Weft is built with Rust $(oldest_rust) or newer, and there is no cargo here. See https://rustup.rs" >&2
        return 1
    fi
    if ! command -v cc >/dev/null && ! install_packages gcc libc6-dev >&2; then
        echo "Rust needs a C compiler to link with." >&2
        return 1
    fi
}

oldest_rust() {
    sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml
}

# Prints those of the named Debian packages that are not installed.
missing_packages() {
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
    done
}

# Installs those of the named Debian packages that are missing, when root asks for it; says what to do when somebody else does.
install_packages() {
    if ! command -v apt-get >/dev/null; then
        cannot_be_had "this is no Debian system; what is needed is called there: $*"
        return
    fi
    local missing
    missing=$(missing_packages "$@" | xargs)
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ]; then
        cannot_be_had "missing packages; as root: apt-get install $missing"
        return
    fi
    echo "installing $missing"
    # shellcheck disable=SC2086  # a list of words
    apt_install $missing || { apt-get -q update && apt_install $missing; } || cannot_be_had "apt-get could not install $missing"
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 install "$@"
}
