# shellcheck shell=bash
# common.sh - what the tools share; sourced, not run; for bash from 3.2 on, which Macs have. Everything that they make is in folders build*/ of the checkout.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034  # for those who source this
build=$root/build devices=$root/build-devices # the release build; OpenCL devices from PyPI
# What is not said to Meson. A Mac has no LLVM (docs/install.md), and its compilers are not those that warnings were looked at with.
build_options=()
if [ "$(uname)" = Darwin ]; then
    build=$root/build-mac
    build_options=(-Dllvm=none -Dtests=false -Ddevice_suite=true -Dwerror=false)
fi
# shellcheck disable=SC2034
packages=$root/build-packages # Python packages from PyPI
logs=$root/build-logs
mkdir -p "$logs"
# Meson and Ninja of their own, where the system has none (tools/setup-mac).
if [ -d "$root/build-tools/bin" ]; then PATH=$root/build-tools/bin:$PATH; fi

say() { printf '\n== %s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Meson from the distribution first: one of another Python's may be on the PATH without its modules.
find_meson() {
    local candidate
    for candidate in /usr/bin/meson meson; do
        if "$candidate" --version >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    die "no meson that runs; tools/setup installs it"
}

# Options for LLVM's linker, which links our hundred programs in a sixth of the time of the system's; none where it is not installed.
fast_linker() {
    local folder
    for folder in /usr/lib/llvm-22/bin /usr/lib64/llvm22/bin /usr/lib/llvm22/bin; do
        [ -x "$folder/ld.lld" ] || continue
        printf -- '-D%s_link_args=-fuse-ld=lld -B%s\n' c "$folder" cpp "$folder"
        return
    done
}

# configure_in DIR [OPTION...]: configures DIR unless it is.
configure_in() {
    local dir=$1 meson
    shift
    meson=$(find_meson)
    # A build folder that another checkout or another meson left behind does not work: it is made anew.
    if [ -e "$dir/build.ninja" ] && ! ninja -C "$dir" build.ninja >/dev/null 2>&1; then rm -rf "$dir"; fi
    if [ ! -e "$dir/build.ninja" ]; then
        rm -rf "$dir"
        local log option linker=()
        log=$logs/$(basename "$dir").log
        while IFS= read -r option; do linker+=("$option"); done < <(fast_linker)
        "$meson" setup "$dir" "$root" ${linker[@]+"${linker[@]}"} ${build_options[@]+"${build_options[@]}"} "$@" >"$log" 2>&1 || {
            cat "$log" >&2
            die "meson setup $dir failed"
        }
    fi
}

# build_in DIR [OPTION...]: configures DIR unless it is, then builds it. Warnings are errors (meson.build).
build_in() {
    configure_in "$@"
    local dir=$1 quiet=--quiet
    [ -t 1 ] && quiet=
    ninja -C "$dir" $quiet || die "the build in $dir failed"
}

# OpenCL devices for demo and tests: what the system has and Intel's device for processors, which tools/setup installs.
use_opencl_devices() {
    local environment
    if environment=$("$root/tests/tools/opencl-devices.sh" "$devices" 2>/dev/null); then
        eval "$environment"
    else
        warn "Intel's OpenCL device for processors is not installed; going on with the devices of the system"
    fi
}

# torch and what else the tests of the Python package use, which tools/setup installs; they skip what is not there.
use_python_packages() {
    if AULE_TEST_PACKAGES=$("$root/tests/tools/python-packages.sh" "$packages" 2>/dev/null); then
        export AULE_TEST_PACKAGES
    else
        unset AULE_TEST_PACKAGES
        warn "torch is not installed; going on without the tests that need it"
    fi
}
