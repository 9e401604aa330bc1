"""`paydesk dev --tls --tls-port 443` in a namespace of its own, whose hosts file leads the vendor's names to loopback.

It is run as root of the namespace: `unshare --map-root-user --mount --net python hosts_file_dev.py PAYDESK HOSTS_FILE`.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import sys

SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1


def main() -> None:
    """Bring the loopback interface up, mount the hosts file, and become `paydesk dev`."""
    paydesk, hosts = sys.argv[1:]
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
    os.execv(paydesk, [paydesk, "dev", "--port", "0", "--tls", "--tls-port", "443"])  # noqa: S606


if __name__ == "__main__":
    main()
