"""load_app: from ``module:attribute`` to the Redrive app it names."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from redrive.app.redrive import Redrive
from redrive.errors import ConfigError

_RULE = "name it as module:attribute, such as examples.email:app"


def load_app(name: str) -> Redrive:
    """Import the app called `name`; modules are also looked for in the working directory.

    Raises `ConfigError` when the name is malformed, the module is missing or fails to import (with the
    cause), or the attribute is missing or no `Redrive`.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise ConfigError(f"app {name!r} is no app name; {_RULE}")
    if "/" in module_name or module_name.endswith(".py"):
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise ConfigError(f"app {name!r} names a file; name the module: {dotted}:{attribute}")
    module = _module(name, module_name)
    found: object = module
    for step in attribute.split("."):
        try:
            found = getattr(found, step)
        except AttributeError:
            where = getattr(module, "__file__", None) or "a package without a file"
            raise ConfigError(f"app {name!r}: module {module_name} ({where}) has no {attribute!r}") from None
    if not isinstance(found, Redrive):
        kind = f"{type(found).__module__}.{type(found).__qualname__}"
        raise ConfigError(f"app {name!r} is a {kind}, not a Redrive; name the variable of app = Redrive()")
    return found


def _module(name: str, module_name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise ConfigError(
                f"app {name!r}: there is no module {missing!r} here ({here}); {_RULE}"
            ) from error
        raise ConfigError(
            f"app {name!r}: {module_name} imports {missing!r}, which is not installed"
        ) from error
    except Exception as error:
        raise ConfigError(
            f"app {name!r}: importing {module_name} failed with {type(error).__name__}: {error}"
        ) from error
