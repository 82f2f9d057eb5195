#!/bin/sh
# A compiler and linker for macOS: zig.sh DIR prints the path of zig, which brings macOS's C headers and stubs of its libSystem. Taken from the PATH where
# it is there; else installed from PyPI into DIR (100 MB to fetch, 400 on the disk). Fails, with the reason on stderr, where it cannot be had; the test that needs it is skipped then.
set -eu

if [ $# -ne 1 ]; then
    echo "usage: $0 DIR" >&2
    exit 2
fi
command -v zig && exit
python=/usr/bin/python3
[ -x "$python" ] || python=python3
zig=$1/zig/ziglang/zig # tests/macos/meson.build looks for it there
if [ ! -x "$zig" ]; then
    "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$1/zig" ziglang==0.17.1 >&2
fi
echo "$zig"
