"""Python 3.14 in a folder: a small Debian system, made by debootstrap and entered by chroot.

For machines whose newest Python is older. Needs Linux, root, ``debootstrap`` and ``unshare``; takes
about a minute and 600 MB. ``python -m tests.pythons.debian_root FOLDER`` makes one.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.pythons.interpreters import PROBE, Interpreter, version_of

#: The release of Debian that has it, and debootstrap's script for releases it does not know yet.
RELEASE, SCRIPT = "forky", "sid"
PYTHON = "python3.14"
_PACKAGES = f"{PYTHON},{PYTHON}-venv,make,git,ca-certificates"
#: What lets pip and Maven reach their registries as they do outside.
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_COPIED = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", _CERTIFICATES)
_PASSED = ("PIP_", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def lacks() -> str | None:
    """Why none can be made here; None if one can."""
    if not sys.platform.startswith("linux"):
        return "it needs Linux"
    if os.geteuid():
        return "it needs root"
    for program in ("debootstrap", "unshare"):
        if shutil.which(program) is None:
            return f"it needs {program}"
    return None


def make(root: Path) -> Interpreter:
    """Make the system in ``root``, unless it is there, and return its interpreter.

    Raises:
        RuntimeError: debootstrap failed; its log is named.
    """
    if not (root / "made").exists():
        if root.exists():
            shutil.rmtree(root)
        root.mkdir(parents=True)
        log = root.with_suffix(".log")
        words = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", RELEASE, str(root)]
        with log.open("wb") as file:
            done = subprocess.run([*words, "", SCRIPT], stdout=file, stderr=subprocess.STDOUT)
        if done.returncode:
            raise RuntimeError(f"debootstrap failed: {log}")
        (root / "made").touch()
    for name in _COPIED:
        if Path(name).exists():
            shutil.copyfile(name, root / name[1:])
    version = version_of(entered(root, [PYTHON, "-c", PROBE]))
    if version is None:
        raise RuntimeError(f"{PYTHON} does not run in {root}")
    return Interpreter(version, PYTHON, root)


def entered(root: Path, words: list[str], folder: str = "/") -> list[str]:
    """The command that runs ``words`` in the system; its mounts end with it."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(_PASSED)}
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "SSL_CERT_FILE": _CERTIFICATES,
        "REQUESTS_CA_BUNDLE": _CERTIFICATES,
        **kept,
    }
    given = " ".join(shlex.quote(f"{name}={value}") for name, value in environment.items())
    at = shlex.quote(str(root))
    inside = f"cd {shlex.quote(folder)} && exec {shlex.join(words)}"
    script = (
        f"mount -t proc proc {at}/proc && mount --rbind /dev {at}/dev && "
        f"mount -t tmpfs tmpfs {at}/tmp && "
        f"exec chroot {at} /usr/bin/env -i {given} sh -c {shlex.quote(inside)}"
    )
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]


if __name__ == "__main__":
    if (missing := lacks()) is not None:
        sys.exit(f"no Debian system with {PYTHON} can be made here: {missing}")
    print(make(Path(sys.argv[1]).resolve()).version)
