#!/bin/sh
# vulkan_validation.sh PROGRAM [ARGUMENT...]: runs it under Khronos' validation layer, accesses that are not ordered included, and fails where the layer says
# anything. Skipped where the layer is not installed.
AULE_VULKAN_VALIDATION=1 VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
export AULE_VULKAN_VALIDATION VK_LAYER_ENABLES
said=$("$@" 2>&1)
status=$?
printf '%s\n' "$said"
case $said in
*"which is not installed"*) exit 77 ;;
*VUID-* | *SYNC-HAZARD* | *"Validation Error"*) exit 1 ;;
esac
exit $status
