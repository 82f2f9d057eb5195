#!/bin/sh
# An attention compiled for AArch64, called by a program built for AArch64 with libaule's sources, under qemu.
#     aarch64.sh AULEC SOURCE_ROOT        exit 77 (skipped) where the cross compiler or qemu is missing
set -eu
aulec=$1
root=$2
cc=aarch64-linux-gnu-gcc
command -v $cc >/dev/null && command -v qemu-aarch64 >/dev/null || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$aulec" "$root/tests/front/examples/mha.attn" --target cpu --arch aarch64 --width D=64 -o "$dir/mha.so"
$cc -std=c17 -D_GNU_SOURCE -O1 -DAULE_VERSION_TEXT='"test"' -I"$root/include" "$root"/runtime/*.c "$root"/runtime/backends/*.c "$root"/runtime/platform/linux.c \
    "$root/tests/exec/call_main.c" -o "$dir/call" -lm -lpthread -ldl
qemu-aarch64 -L /usr/aarch64-linux-gnu "$dir/call" "$dir/mha.so"
