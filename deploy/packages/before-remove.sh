#!/bin/sh
# Stops the server when the package is removed, and not when it is replaced. The database stays.
set -e
case "$1" in
    remove | 0)
        if [ -d /run/systemd/system ]; then
            systemctl disable --now quire.service
        fi
        ;;
esac
