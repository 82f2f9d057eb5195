#!/bin/sh
# The C program of static_test.c with kernels for AArch64, under qemu: functions in one object, no library of ours.
#     aarch64.sh AULEC MHA.attn TESTS/EMBED        exit 77 (skipped) where the cross compiler or qemu is missing
set -eu
aulec=$1
mha=$2
here=$3
cc=aarch64-linux-gnu-gcc
command -v $cc >/dev/null && command -v qemu-aarch64 >/dev/null || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for script in "$mha" "$here/window.attn" "$here/gather.attn"; do
    name=$(basename "$script" .attn)
    checked=; [ "$name" = gather ] && checked=--checked
    "$aulec" "$script" $checked --emit=header --target cpu --arch aarch64 --width D=64 -o "$dir/$name.h"
    "$aulec" "$script" $checked --emit=obj --target cpu --arch aarch64 --width D=64 -o "$dir/$name.o"
done
$cc -std=c17 -D_GNU_SOURCE -O1 -I"$dir" -I"$here" "$here/static_test.c" "$dir/mha.o" "$dir/window.o" "$dir/gather.o" -o "$dir/program" -lm -lpthread
qemu-aarch64 -L /usr/aarch64-linux-gnu "$dir/program"
