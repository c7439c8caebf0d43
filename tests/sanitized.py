"""Runs tests with the extension built for AddressSanitizer and UndefinedBehaviorSanitizer.

``make test-sanitized`` builds it in a copy of the checkout, ``build/sanitized``, and runs there, in
Python's development mode, the tests that call it the most; ``python -m tests.sanitized TEST ...``
runs others. What reads or writes outside of its memory ends the run with a report. A broker cannot
run with the sanitizers' library: tests that start one have it in their own process only, and may
start no others that load the extension.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.pythons.__main__ import ROOT, copy_checkout

COPY = ROOT / "build" / "sanitized"
ROOMS = ("kafka", "processing", "serdes", "state", "dsl")
UNIT = tuple(f"tests/unit/{room}" for room in ROOMS)
WITH_BROKER = ("tests/integration/test_native.py", "tests/integration/test_client.py")
#: The sanitizers take more address space than a limit of it leaves.
LEFT_OUT = "tests/unit/kafka/test_process_limits.py"
_FLAGS = "-fsanitize=address,undefined -fno-omit-frame-pointer -g -O1"
_OPTIONS = {
    # Python frees nothing at its end.
    "ASAN_OPTIONS": "detect_leaks=0",
    "UBSAN_OPTIONS": "halt_on_error=1,print_stacktrace=1",
    # Each object of Python has memory of its own, with nothing readable behind it.
    "PYTHONMALLOC": "malloc",
}


def pytest_configure() -> None:
    """Leave the library of the sanitizers to this process alone."""
    os.environ.pop("LD_PRELOAD", None)


def main(tests: list[str]) -> int:
    """Build, run the tests, and return pytest's exit status; 2: there is nothing to build with."""
    compiler = shutil.which("gcc")
    if compiler is None:
        print("gcc is needed: its libasan is what is loaded before Python", file=sys.stderr)
        return 2
    copy_checkout(COPY)
    subprocess.run(["make", "installed"], cwd=COPY, check=True)
    python = str(COPY / ".venv" / "bin" / "python")
    flags = {"CC": compiler, "CFLAGS": _FLAGS, "LDFLAGS": "-fsanitize=address,undefined"}
    again = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--editable", "."]
    subprocess.run(again, cwd=COPY, env={**os.environ, **flags}, check=True)
    (built,) = (COPY / "streamlet" / "kafka" / "native").glob("_native*.so")
    if b"__asan_init" not in built.read_bytes():
        print(f"{built} was built without sanitizers", file=sys.stderr)
        return 2
    named = ["-print-file-name=libasan.so"]
    library = subprocess.run([compiler, *named], capture_output=True, text=True, check=True)
    environment = {**os.environ, **_OPTIONS, "LD_PRELOAD": library.stdout.strip()}
    words = [python, "-X", "dev", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    runs = [[*UNIT, "--ignore", LEFT_OUT], [*WITH_BROKER, "-p", "tests.sanitized"]]
    return max(
        subprocess.run([*words, *run], cwd=COPY, env=environment).returncode
        for run in ([tests] if tests else runs)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
