#!/bin/sh
# on_lavapipe.sh SCRIPT PROGRAM [ARGUMENT...]: runs the program by SCRIPT, which tests/tools/vulkan-device.sh made; skipped where it is not there.
# A program that finds no device there has failed.
script=$1
shift
if [ ! -x "$script" ]; then
    echo "$script (tests/tools/vulkan-device.sh) is not there"
    exit 77
fi
said=$("$script" "$@" 2>&1)
status=$?
printf '%s\n' "$said"
case $said in
*"SKIPPED"*) exit 1 ;;
esac
exit $status
