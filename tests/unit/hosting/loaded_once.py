"""The process that loaded this module."""

import os

PID = os.getpid()
