#!/bin/sh
# AMD's Vulkan driver of Mesa (RADV) of Debian 13, for tests: it compiles modules for GPUs that are not there (RADV_FORCE_FAMILY) and says what
# registers their kernels take. Later versions of Mesa have that no more.
#
#   tests/tools/radv.sh DIR
#
# prints the path of a script that runs a program with that driver, its loader and C library: RADV_FORCE_FAMILY=gfx1100 SCRIPT PROGRAM
# [ARGUMENT...]. The packages (from the mirror that this system's apt uses) are unpacked below DIR, nothing is installed, and no root is
# needed. A second call finds DIR filled. Fails, with the reason on stderr, where they cannot be had.
set -eu
. "$(dirname "$0")/debian-packages.sh"

debian_folder radv "$@"

if [ ! -e "$dir/complete" ]; then
    unpack_debian "$dir" trixie mesa-vulkan-drivers libvulkan1
    libraries=$dir/root/usr/lib/x86_64-linux-gnu
    # Other devices' drivers are the larger half.
    find "$libraries" -maxdepth 1 -name 'libvulkan_*' ! -name libvulkan_radeon.so -delete
    cat >"$run" <<'EOF'
#!/bin/sh
root=$(dirname "$(readlink -f "$0")")/root
libraries=$root/usr/lib/x86_64-linux-gnu
export VK_DRIVER_FILES="$root/usr/share/vulkan/icd.d/radeon_icd.json" MESA_SHADER_CACHE_DISABLE=true
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/lib/x86_64-linux-gnu" "$@"
EOF
    chmod +x "$run"
    test -e "$libraries/libvulkan_radeon.so"
    touch "$dir/complete"
fi
echo "$run"
