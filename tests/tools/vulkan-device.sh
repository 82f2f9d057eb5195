#!/bin/sh
# Mesa's Vulkan device for processors (lavapipe) of a newer Debian, for tests: it has cooperative matrices and subgroups of a size that is asked for,
# which the device of Debian 12 has not. With it come a validator and Khronos' validation layer that know them.
#
#   tests/tools/vulkan-device.sh DIR
#
# prints the path of a script that runs a program with that device, loader and C library: SCRIPT PROGRAM [ARGUMENT...]. The packages
# (71 MB, from the mirror that this system's apt uses) are unpacked below DIR, nothing is installed, and no root is needed. A second call finds
# DIR filled (one that an older version filled is made anew). Fails, with the reason on stderr, where they cannot be had.
set -eu
. "$(dirname "$0")/debian-packages.sh"

suite=trixie
debian_folder lavapipe "$@"

layers=root/usr/share/vulkan/explicit_layer.d
if [ ! -e "$dir/complete" ] || [ ! -e "$dir/$layers/VkLayer_khronos_validation.json" ]; then
    unpack_debian "$dir" "$suite $suite-backports" -t "$suite-backports" mesa-vulkan-drivers libvulkan1 spirv-tools vulkan-validationlayers
    libraries=$dir/root/usr/lib/x86_64-linux-gnu
    # Other devices' drivers are the larger half.
    find "$libraries" -maxdepth 1 -name 'libvulkan_*' ! -name libvulkan_lvp.so -delete
    cat >"$run" <<'EOF'
#!/bin/sh
# Subgroups of 8 lanes, whatever vectors this processor has, unless others are asked for.
root=$(dirname "$(readlink -f "$0")")/root
libraries=$root/usr/lib/x86_64-linux-gnu
export VK_DRIVER_FILES="$root/usr/share/vulkan/icd.d/lvp_icd.json" VK_LAYER_PATH="$root/usr/share/vulkan/explicit_layer.d"
export LP_NATIVE_VECTOR_WIDTH="${LP_NATIVE_VECTOR_WIDTH:-256}"
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/lib/x86_64-linux-gnu" "$@"
EOF
    chmod +x "$run"
    test -e "$libraries/libvulkan_lvp.so"
    touch "$dir/complete"
fi
echo "$run"
