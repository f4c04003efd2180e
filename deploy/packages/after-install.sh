#!/bin/sh
# Creates the user of the server. It neither enables nor starts the server: that is the administrator's decision.
set -e
if ! getent passwd quire >/dev/null; then
    useradd --system --user-group --home-dir /var/lib/quire --shell /usr/sbin/nologin quire
fi
chgrp quire /etc/quire/quire.toml
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
