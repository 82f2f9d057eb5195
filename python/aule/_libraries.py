"""Finds and loads the C libraries."""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
from pathlib import Path

from ._errors import LibraryError


ABI = 0  # as in meson.build


def _file_name(stem: str) -> str:
    return f"lib{stem}.{ABI}.dylib" if sys.platform == "darwin" else f"lib{stem}.so.{ABI}"


def load_library(stem: str) -> tuple[ctypes.CDLL, str]:
    """Loads ``lib<stem>`` and returns it with its path.

    Looked for in the folders of AULE_LIBRARY_PATH, then where a wheel puts it beside the package, then by the system's rules. If it
    is in one of the folders, that one must load: a broken library is not silently replaced by another.

    Raises:
        LibraryError: not found, or not loadable.
    """
    name = _file_name(stem)
    folders = [Path(folder) for folder in os.environ.get("AULE_LIBRARY_PATH", "").split(os.pathsep) if folder]
    folders += [place / ".aule.mesonpy.libs" for place in dict.fromkeys((Path(__file__).parent.parent, Path(sysconfig.get_path("platlib"))))]
    path = next((str(folder / name) for folder in folders if (folder / name).exists()), name)
    try:
        return ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL), path
    except OSError as error:
        looked = ", ".join(str(folder) for folder in folders)
        raise LibraryError(f"{name} cannot be loaded: {error}; looked for in {looked} and the system's folders") from None
