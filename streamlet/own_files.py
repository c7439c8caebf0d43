"""Folders and files that are the user's alone.

State has what records contain, and a lock or a jar in another user's hand is a way into the
process. So what is made here has no rights for others, and what another user made, or laid as a
link, is refused. Folders above may belong to anyone, such as the root of a mounted volume.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from pathlib import Path
from typing import Literal

import platformdirs

#: Rights of group and others.
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

#: The kinds of a user's folders: what gives each, and where it is below a home.
_FOLDERS = {
    "data": (platformdirs.user_data_path, ".local/share"),
    "state": (platformdirs.user_state_path, ".local/state"),
    "cache": (platformdirs.user_cache_path, ".cache"),
}


class NotOwnError(PermissionError):
    """A path that is another user's, or of another kind; ``strerror`` says what to do."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(errno.EPERM, text, str(path))


def user_folder(kind: Literal["data", "state", "cache"]) -> Path:
    """The user's folder for what is streamlet's, which need not be there.

    A user without a home, as that of a service, has it where a container would say that its home is
    the root: what writes there is refused with the setting that names another.
    """
    found, below_home = _FOLDERS[kind]
    try:
        folder = Path(found("streamlet"))
    except RuntimeError:
        folder = Path()
    return folder if folder.is_absolute() else Path("/", below_home, "streamlet")


def make_own_folder(folder: Path) -> None:
    """Make a folder, and the missing ones above it, for this user alone.

    One that is there already loses its rights for group and others.

    Raises:
        NotOwnError: the folder belongs to another user, or is another user's link.
        OSError: it cannot be made.
    """
    missing = []
    for path in (folder, *folder.parents):
        if path.exists():
            break
        missing.append(path)
    for path in reversed(missing or [folder]):
        path.mkdir(mode=0o700, exist_ok=True)
    for found in (folder.lstat(), folder.stat()):
        check_owner(folder, found)
    rights = stat.S_IMODE(folder.stat().st_mode)
    if rights & _OTHERS:
        folder.chmod(rights & ~_OTHERS)


def open_own_file(file: Path, flags: int) -> int:
    """Open a file of this user, whose rights for group and others go; made if ``flags`` say so.

    Raises:
        NotOwnError: it belongs to another user, is a link, or is no file.
        OSError: it cannot be opened.
    """
    fd = open_no_link(file, flags)
    try:
        found = os.fstat(fd)
        check_owner(file, found)
        if found.st_mode & _OTHERS:
            os.fchmod(fd, stat.S_IMODE(found.st_mode) & ~_OTHERS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_no_link(file: Path, flags: int) -> int:
    """Open a file of any owner, without following a link or waiting for a pipe's other end.

    Raises:
        NotOwnError: it is a link, or no file.
        OSError: it cannot be opened.
    """
    if file.is_symlink():
        raise NotOwnError(file, "it is a symbolic link, which is not followed; delete it")
    fd = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotOwnError(file, "it is not a file; delete it")
    return fd


def check_owner(path: Path, found: os.stat_result) -> None:
    """Refuse what belongs to another user.

    Raises:
        NotOwnError: it does; names both users and the command that changes it.
    """
    user = os.geteuid()
    if found.st_uid != user:
        raise NotOwnError(
            path,
            f"it belongs to user {user_name(found.st_uid)}, and this is user {user_name(user)}; "
            f"run as the owner, or make it this user's by chown -R {user} {path}",
        )


def user_name(uid: int) -> str:
    """The name of a user; its number if it has none, as in many containers."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
