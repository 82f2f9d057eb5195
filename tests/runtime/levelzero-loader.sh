#!/bin/sh
# levelzero-loader.sh DRIVER PROGRAM [ARGUMENT...]: runs the program with the system's loader of Level Zero (Debian: libze1), its layer that
# validates calls, and DRIVER, the double of tests/runtime/levelzero. Newer layers than Debian 12's also look at events, and count what is made and
# not ended: that is a failure. Skipped where the loader or its layer is not there.
# ZE_ENABLE_HANDLE_LIFETIME stays off: 1.8.12 does not look at handles yet, 1.20.6 refuses all that is appended to an immediate list.
driver=$1
shift
for library in libze_loader.so.1 libze_validation_layer.so.1; do
    if ! python3 -c "import ctypes, sys; ctypes.CDLL(sys.argv[1])" "$library" 2>/dev/null; then
        echo "SKIPPED: $library (Debian: libze1) is not there"
        exit 77
    fi
done
export ZE_ENABLE_ALT_DRIVERS="$driver" ZE_ENABLE_VALIDATION_LAYER=1 ZE_ENABLE_PARAMETER_VALIDATION=1
export ZEL_ENABLE_EVENTS_CHECKER=1 ZEL_ENABLE_BASIC_LEAK_CHECKER=1
said=$("$@" 2>&1)
status=$?
printf '%s\n' "$said"
case $said in
*"LEAK = "*) exit 1 ;;
esac
exit $status
