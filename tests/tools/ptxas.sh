#!/bin/sh
# NVIDIA's assembler, with which tests check the code for GPUs: ptxas.sh DIR prints its path. Taken from the PATH or a CUDA toolkit
# where there is one; else installed from PyPI into DIR (50 MB). Fails, with the reason on stderr, where it cannot be had; tests that
# need it are left out then.
set -eu

if [ $# -ne 1 ]; then
    echo "usage: $0 DIR" >&2
    exit 2
fi
command -v ptxas && exit
[ -x /usr/local/cuda/bin/ptxas ] && echo /usr/local/cuda/bin/ptxas && exit
python=/usr/bin/python3
[ -x "$python" ] || python=python3
ptxas=$1/ptxas/nvidia/cu13/bin/ptxas # tests/codegen/meson.build looks for it there
if [ ! -x "$ptxas" ]; then
    "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$1/ptxas" \
        nvidia-cuda-nvcc==13.5.37 >&2
    chmod +x "$ptxas"
fi
echo "$ptxas"
