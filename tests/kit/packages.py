"""Debian packages of the programs that tests need."""
import os
import shutil
import subprocess
import sys


def need(*pairs):
    """Installs the packages of missing programs, given as PROGRAM:PACKAGE, and prints the packages that it cannot install.

    A test that lacks its program says so itself and counts as skipped.
    """
    missing = sorted({package for name, _, package in (pair.partition(":") for pair in pairs) if shutil.which(name) is None})
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"cannot install {' '.join(missing)}: that takes root on Debian or Ubuntu", flush=True)
        return
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    # apt-get ends at once while another one runs, unless it is told to wait.
    install = ["apt-get", "-o", "DPkg::Lock::Timeout=600", "install", "-y", "-q", *missing]
    for command in (install, ["apt-get", "update", "-q"], install):
        if subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0 and command is install:
            return
    print(f"cannot install {' '.join(missing)} with apt-get", flush=True)


if __name__ == "__main__":
    need(*sys.argv[1:])
