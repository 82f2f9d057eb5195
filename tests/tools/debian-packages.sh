# For scripts that source it: packages of another Debian, unpacked below a folder. Nothing is installed, and no root is needed.

# debian_folder NAME DIR: of a script that takes a folder, in which its packages are DIR/NAME and what it prints is DIR/NAME/run. Sets `dir` and `run`.
debian_folder() {
    if [ $# -ne 2 ]; then
        echo "usage: $0 DIR" >&2
        exit 2
    fi
    mkdir -p "$2"
    dir=$(cd "$2" && pwd -P)/$1
    run=$dir/run
}

# unpack_debian DIR SUITES [OPTION...] PACKAGE... (from the mirror that this system's apt uses): DIR is made anew, and the packages, with all that
# they depend on, the C library too, are DIR/root. Ends the script, with the reason on stderr, where they cannot be had.
unpack_debian() {
    tree=$1 suites=$2
    shift 2
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
    rm -rf "$tree"
    apt=$tree/apt
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/parts" "$tree/root"
    : >"$apt/status"
    for part in $suites; do
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
    apt-get -qq -y --download-only install "$@" >&2
    for package in "$apt"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$tree/root"
    done
    rm -rf "$apt" "$tree/root/usr/share/doc"
}
