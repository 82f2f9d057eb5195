#!/bin/sh
# The C program of static_test.c with kernels for one architecture (all of the default ones: -), in one object each: no library of ours.
#     static_arch.sh AULEC MHA.attn TESTS/EMBED ARCH FLAG 'CC OPTIONS' ['RUNNER OPTIONS']
# exit 77 (skipped) where compiler or runner is missing, or this processor lacks FLAG of /proc/cpuinfo (none is needed: -)
set -eu
aulec=$1 mha=$2 here=$3 arch=$4 flag=$5 cc=$6 runner=${7:-}
command -v "${cc%% *}" >/dev/null || exit 77
[ -z "$runner" ] || command -v "${runner%% *}" >/dev/null || exit 77
[ "$flag" = - ] || grep -qw "$flag" /proc/cpuinfo || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
[ "$arch" = - ] && archs= || archs="--arch $arch"
for script in "$mha" "$here/window.attn" "$here/gather.attn"; do
    name=$(basename "$script" .attn)
    checked=; [ "$name" = gather ] && checked=--checked
    for kind in header:h obj:o; do
        # shellcheck disable=SC2086  # words
        "$aulec" "$script" $checked "--emit=${kind%:*}" --target cpu $archs --dtype f32,bf16 --width D=64 -o "$dir/$name.${kind#*:}"
    done
done
# shellcheck disable=SC2086
$cc -std=c17 -D_GNU_SOURCE -O1 -I"$dir" -I"$here" "$here/static_test.c" "$dir/mha.o" "$dir/window.o" "$dir/gather.o" -o "$dir/program" -lm -lpthread
# shellcheck disable=SC2086
$runner "$dir/program"
