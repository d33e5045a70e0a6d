#!/bin/sh
# Starts a command in a host of a test network, as `ssh [OPTIONS] HOST COMMAND` would. The hosts are WEFT_MPI_NEAR, where
# this runs, and those of WEFT_MPI_FAR: words ADDRESS=PROCESS, of which the process is in that host's network. There, a
# host's name is its address, so that all programs can resolve it, and /sys shows its own interfaces.
# `--words HOST PROGRAM ARGUMENT...` leaves the arguments as they are.
# A /sys that shows them already can't be mounted again.
names='sed -n "s/^ *\([^:]*\):.*/\1/p" /proc/net/dev'
shown="$names"' | while read -r name; do [ -e "/sys/class/net/$name" ] || exit 1; done'
own="{ $shown || mount -t sysfs sysfs /sys; }"
line='hostname "$0" && '"$own"' && eval "$1"'
words='hostname "$0" && '"$own"' && exec "$@"'
if [ "$1" = --words ]; then
    shift
    exec unshare --uts --mount -- sh -c "$words" "$@"
fi
while [ $# -gt 0 ]; do
    host=$1
    shift
    [ "$host" != "$WEFT_MPI_NEAR" ] || exec unshare --uts --mount -- sh -c "$line" "$host" "$*"
    for far in $WEFT_MPI_FAR; do
        [ "$host" != "${far%=*}" ] || exec nsenter --target "${far#*=}" --net -- unshare --uts --mount -- sh -c "$line" "$host" "$*"
    done
done
echo "no host of this network is named" >&2
exit 1
