#!/bin/sh
# Makes OpenCL devices for tests available: PoCL, where it is installed, and Intel's CPU device, installed from PyPI into DIR.
#
#   eval "$(tests/tools/opencl-devices.sh DIR)"
#
# prints the environment to set: OCL_ICD_VENDORS names a folder with one .icd file a device, LD_LIBRARY_PATH finds Intel's
# libraries. A second call finds DIR filled and installs nothing. Fails, with the reason on stderr, where Intel's cannot be had.
set -eu

if [ $# -ne 1 ]; then
    echo "usage: $0 DIR" >&2
    exit 2
fi
version=2026.2.0
tbb=2023.1.0
mkdir -p "$1"
dir=$(cd "$1" && pwd)
root=$dir/intel-opencl-$version

if [ ! -e "$root/complete" ]; then
    rm -rf "$root"
    # --no-deps: all that it loads is named here.
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps \
        --ignore-installed --prefix "$root" "intel-opencl-rt==$version" "intel-cmplr-lib-rt==$version" "tbb==$tbb" >&2
    # Debian's Python puts what has a prefix into local/ there.
    if [ -d "$root/local/lib" ]; then
        mv "$root/local/lib" "$root/lib"
    fi
    # The loader is the system's.
    rm -f "$root"/lib/libOpenCL.so*
    test -e "$root/lib/libintelocl.so"
    touch "$root/complete"
fi

# The packages' own .icd files name paths of the machine that built them.
vendors=$root/vendors
mkdir -p "$vendors"
echo "$root/lib/libintelocl.so" >"$vendors/intel-cpu.icd"
for pocl in /etc/OpenCL/vendors/pocl.icd; do
    if [ -e "$pocl" ]; then
        cp "$pocl" "$vendors/"
    fi
done

echo "export OCL_ICD_VENDORS='$vendors'"
echo "export LD_LIBRARY_PATH='$root/lib'\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
