#!/bin/sh
# Puts everything that a machine with an NVIDIA GPU needs into one folder: build.sh BUILD-FOLDER OUT, then there OUT/run.sh.
# The cases are those of tests/codegen, with what the interpreter expects; no compiler is needed on that machine.
set -e
build=$1 out=$2 here=$(cd "$(dirname "$0")" && pwd)
[ -n "$out" ] || { echo "build.sh BUILD-FOLDER OUT" >&2; exit 2; }
rm -rf "$out/cases"
mkdir -p "$out/cases"
AULE_DEVICE_OUT=$(cd "$out/cases" && pwd)
export AULE_DEVICE_OUT
ninja -C "$build" tests/codegen/cuda_test tests/codegen/host_ops_test tests/codegen/host_control_test \
    tests/codegen/host_memory_test tests/codegen/host_random_test >/dev/null
for name in cuda_test host_ops_test host_control_test host_memory_test; do
    "$build/tests/codegen/$name" >"$out/build.log" 2>&1 || { cat "$out/build.log"; exit 1; }
done
"$build/tests/codegen/host_random_test" 1 100 >"$out/build.log" 2>&1 || { cat "$out/build.log"; exit 1; }
cp "$here/cuda_runner.c" "$here/run.sh" "$out/"
cc -std=gnu17 -O1 "$here/cuda_runner.c" -o "$out/cuda_runner" -ldl -lm
du -sh "$out" | cut -f1
