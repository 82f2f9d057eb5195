#!/bin/sh
# levelzero-loader.sh DRIVER PROGRAM [ARGUMENT...]: runs the program with the system's loader of Level Zero (Debian: libze1), its layer that
# validates calls, and DRIVER, the double of tests/runtime/levelzero. Skipped where the loader or its layer is not there.
driver=$1
shift
for library in libze_loader.so.1 libze_validation_layer.so.1; do
    if ! python3 -c "import ctypes, sys; ctypes.CDLL(sys.argv[1])" "$library" 2>/dev/null; then
        echo "SKIPPED: $library (Debian: libze1) is not there"
        exit 77
    fi
done
export ZE_ENABLE_ALT_DRIVERS="$driver" ZE_ENABLE_VALIDATION_LAYER=1 ZE_ENABLE_PARAMETER_VALIDATION=1 ZE_ENABLE_HANDLE_LIFETIME=1
exec "$@"
