#!/bin/sh
# Starts $CHROMIUM without the right to raise its priority, which it uses as root: all else on the machine would wait.
set -eu
if [ "$(id -u)" = 0 ] && setpriv --bounding-set=-sys_nice true 2>/dev/null; then
    exec setpriv --bounding-set=-sys_nice "$CHROMIUM" "$@"
fi
exec "$CHROMIUM" "$@"
