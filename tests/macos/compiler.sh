#!/bin/sh
# zig as a compiler for macOS, as Meson knows Apple's: compiler.sh ZIG cc|c++ TARGET ARGUMENT...
# Meson asks a compiler which linker it has, and knows none of zig's; of the options that Apple's takes, zig's takes what is used here.
zig=$1 language=$2 target=$3
shift 3
for argument; do
    case $argument in
    -Wl,--version)
        echo "ld: unknown option: --version" >&2
        exit 1
        ;;
    -Wl,-v)
        echo "@(#)PROGRAM:ld PROJECT:ld-0" >&2
        exit 0
        ;;
    esac
done
exec "$zig" "$language" -target "$target" "$@"
