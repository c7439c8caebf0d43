"""A file on any file system of Hadoop's, such as those in a checkpoint."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Java's errors for a file that is not there, and for one that is.
_MISSING = frozenset({"FileNotFoundException", "NoSuchFileException"})
_PRESENT = frozenset({"FileAlreadyExistsException"})


@attrs.frozen
class HadoopFile:
    """One file, by Java's objects of its file system and its path; it need not be there."""

    files: Any
    path: Any

    @classmethod
    def of(cls, spark: SparkSession, folder: str, name: str) -> HadoopFile:
        """The file of a name in a folder, or below a URL."""
        jvm: Any = spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(folder, name)
        session: Any = spark._jsparkSession
        return cls(path.getFileSystem(session.sessionState().newHadoopConf()), path)

    @property
    def local(self) -> Path | None:
        """Its path on this machine's disk; None: it lies elsewhere."""
        url = self._url
        return Path(url.getPath()) if url.getScheme() == "file" else None

    @property
    def name(self) -> str:
        """Its one name, however its folder was given.

        Hadoop leaves ``file:/a`` as it is, and makes ``file:///a`` of ``/a``.
        """
        local = self.local
        return str(self._url.toString() if local is None else local.resolve())

    @property
    def _url(self) -> Any:
        return self.files.makeQualified(self.path).toUri()

    def read(self) -> bytes | None:
        """The content; None if there is no such file."""
        from py4j.protocol import Py4JJavaError

        try:
            stream = self.files.open(self.path)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() in _MISSING:
                return None
            raise
        with closing(stream):
            return bytes(stream.readAllBytes())

    def create(self, content: bytes) -> bool:
        """Write it if it is not there; False if it is."""
        from py4j.protocol import Py4JJavaError

        try:
            self._write(content, over=False)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() in _PRESENT:
                return False
            raise
        return True

    def write(self, content: bytes) -> None:
        """Write it over what is there."""
        self._write(content, over=True)

    def delete(self) -> None:
        """Delete it if it is there."""
        self.files.delete(self.path, False)

    def _write(self, content: bytes, *, over: bool) -> None:
        with closing(self.files.create(self.path, over)) as stream:
            stream.write(content)
