#!/bin/sh
# Intel's offline compiler for GPUs (ocloc), which needs no GPU, of Debian sid, for tests: it says whether modules compile for a machine, and what
# their kernels spill.
#
#   tests/tools/ocloc.sh DIR
#
# prints the path of a script that is ocloc, with its C library: SCRIPT compile -spirv_input ... The packages (from the mirror that this
# system's apt uses) are unpacked below DIR, nothing is installed, and no root is needed. A second call finds DIR filled. Fails, with the
# reason on stderr, where they cannot be had.
set -eu

if [ $# -ne 1 ]; then
    echo "usage: $0 DIR" >&2
    exit 2
fi
mkdir -p "$1"
dir=$(cd "$1" && pwd -P)/ocloc
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
    echo "deb [signed-by=$keys] $mirror sid main" >"$apt/sources.list"
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
    apt-get -qq -y --download-only install intel-ocloc libigc2 libigdfcl2 >&2
    for package in "$apt"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$dir/root"
    done
    rm -rf "$apt" "$dir/root/usr/share/doc"
    cat >"$run" <<'EOF'
#!/bin/sh
root=$(dirname "$(readlink -f "$0")")/root
libraries=$root/usr/lib/x86_64-linux-gnu
for program in "$root"/usr/bin/ocloc*; do
    exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$program" "$@"
done
EOF
    chmod +x "$run"
    ls "$dir"/root/usr/bin/ocloc* >/dev/null
    touch "$dir/complete"
fi
echo "$run"
