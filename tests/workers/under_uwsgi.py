"""The site in uWSGI, whose wheel is a module and no program."""

from __future__ import annotations

import sys
from importlib import import_module

import_module("pyuwsgi").run([f"--binary-path={sys.executable}", *sys.argv[1:]])
