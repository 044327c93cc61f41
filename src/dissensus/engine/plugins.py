"""Members that live outside the package: modules named in DISSENSUS_PLUGINS are imported wherever runs are computed.

A plugin adds its members to the tables of the package (`DELIVERIES`, `MEASURES`, …) when it is imported. A spec holds the
name of a member and no code, so every process that computes or reads such a spec needs the plugin.
"""

from __future__ import annotations

import importlib
import os

from dissensus.errors import InputError

VARIABLE = "DISSENSUS_PLUGINS"


def load_plugins() -> None:
    """Import every module that the environment names, separated by commas. Importing one twice does nothing."""
    for name in filter(None, (part.strip() for part in os.environ.get(VARIABLE, "").split(","))):
        try:
            importlib.import_module(name)
        except ImportError as problem:
            raise InputError(
                f"the plugin {name!r} cannot be imported ({problem})",
                where=VARIABLE,
                hint="Name importable modules, separated by commas; PYTHONPATH says where they are",
            ) from None
