#!/bin/sh
# Mesa's Vulkan device for processors (lavapipe) of a newer Debian, for tests: it has cooperative matrices and subgroups of a size that is asked for,
# which the device of Debian 12 has not. With it comes a validator that knows them.
#
#   tests/tools/vulkan-device.sh DIR
#
# prints the path of a script that runs a program with that device, loader and C library: SCRIPT PROGRAM [ARGUMENT...]. The packages
# (63 MB, from the mirror that this system's apt uses) are unpacked below DIR, nothing is installed, and no root is needed. A second call finds
# DIR filled. Fails, with the reason on stderr, where they cannot be had.
set -eu

if [ $# -ne 1 ]; then
    echo "usage: $0 DIR" >&2
    exit 2
fi
suite=trixie
mkdir -p "$1"
dir=$(cd "$1" && pwd -P)/lavapipe
run=$dir/run

if [ ! -e "$dir/complete" ]; then
    if [ "$(uname -m)" != x86_64 ] || ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        echo "$0: this takes Debian's packages for x86-64" >&2
        exit 1
    fi
    mirror=$(apt-get indextargets --format '$(LABEL) $(SITE)' | sed -n 's/^Debian //p' | head -1)
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    if [ -z "$mirror" ] || [ ! -e "$keys" ]; then
        echo "$0: apt knows no mirror of Debian, or its keys are missing" >&2
        exit 1
    fi
    rm -rf "$dir"
    apt=$dir/apt
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/parts" "$dir/root"
    : >"$apt/status"
    for part in "$suite" "$suite-backports"; do
        echo "deb [signed-by=$keys] $mirror $part main"
    done >"$apt/sources.list"
    # An apt of its own, to which nothing is installed: it fetches the C library, too.
    cat >"$apt/apt.conf" <<EOF
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/parts";
Dir::Etc::preferencesparts "$apt/parts";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
EOF
    export APT_CONFIG="$apt/apt.conf"
    apt-get -qq update >&2
    apt-get -qq -y --download-only -t "$suite-backports" install mesa-vulkan-drivers libvulkan1 spirv-tools >&2
    for package in "$apt"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$dir/root"
    done
    libraries=$dir/root/usr/lib/x86_64-linux-gnu
    # Other devices' drivers are the larger half.
    find "$libraries" -maxdepth 1 -name 'libvulkan_*' ! -name libvulkan_lvp.so -delete
    rm -rf "$apt" "$dir/root/usr/share/doc"
    cat >"$run" <<'EOF'
#!/bin/sh
# Subgroups of 8 lanes, whatever vectors this processor has.
root=$(dirname "$(readlink -f "$0")")/root
libraries=$root/usr/lib/x86_64-linux-gnu
export VK_DRIVER_FILES="$root/usr/share/vulkan/icd.d/lvp_icd.json" LP_NATIVE_VECTOR_WIDTH=256
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/lib/x86_64-linux-gnu" "$@"
EOF
    chmod +x "$run"
    test -e "$libraries/libvulkan_lvp.so"
    touch "$dir/complete"
fi
echo "$run"
