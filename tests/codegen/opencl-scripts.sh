#!/bin/sh
# Every script that compiles for OpenCL, in every type: clang accepts the printed text without a word.
#   opencl-scripts.sh AULEC OPENCL_TEXT_TEST FOLDER
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for script in "$3"/*.attn; do
    # Recurrences have no kernels yet.
    if grep -q 'linear *{' "$script"; then
        continue
    fi
    "$1" "$script" --target opencl --emit opencl-c -o "$folder/$(basename "$script" .attn).cl"
done
"$2" "$folder"/*.cl
