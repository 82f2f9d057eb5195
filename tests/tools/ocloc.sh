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
. "$(dirname "$0")/debian-packages.sh"

debian_folder ocloc "$@"

if [ ! -e "$dir/complete" ]; then
    unpack_debian "$dir" sid intel-ocloc libigc2 libigdfcl2
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
