#!/bin/sh
# Starts a command in a host of a test network, as `ssh [OPTIONS] HOST COMMAND` would. The hosts are WEFT_MPI_NEAR, where this runs, and
# WEFT_MPI_FAR, the network of the process WEFT_MPI_FAR_PROCESS. There, a host's name is its address, so that everybody can resolve it, and
# /sys shows its own interfaces. `--words HOST PROGRAM ARGUMENT...` leaves the arguments as they are.
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
    case $host in
    "$WEFT_MPI_NEAR") exec unshare --uts --mount -- sh -c "$line" "$host" "$*" ;;
    "$WEFT_MPI_FAR") exec nsenter --target "$WEFT_MPI_FAR_PROCESS" --net -- unshare --uts --mount -- sh -c "$line" "$host" "$*" ;;
    esac
done
echo "no host of this network is named" >&2
exit 1
