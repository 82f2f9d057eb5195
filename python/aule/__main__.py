"""``python -m aule devices``: what the runtime finds on this machine, or why it does not find it."""

from __future__ import annotations

import argparse
import sys

from . import __version__, describe_devices
from ._errors import Error


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status: 0, 1 for an error, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m aule", description="attention kernels from scripts")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("devices", help="list backends and devices, available or why not")
    parser.parse_args(arguments)
    try:
        sys.stdout.write(describe_devices())
    except Error as error:
        print(f"aule: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
