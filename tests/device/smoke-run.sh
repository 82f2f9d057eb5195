#!/bin/sh
# Runs what smoke.sh has put beside this script on this machine's GPU; the last line is "N passed, M failed".
cd "$(dirname "$0")" || exit 2
passed=0 failed=0
./aule devices
while read -r so arguments; do
    echo "== $so $arguments"
    # shellcheck disable=SC2086
    ./cuda_smoke "$so" $arguments >smoke/out 2>&1
    cat smoke/out
    last=$(tail -n 1 smoke/out)
    case $last in
    *" passed, "*" failed") passed=$((passed + ${last%% *})) failed=$((failed + $(echo "$last" | sed 's/.*passed, \([0-9]*\) .*/\1/'))) ;;
    *) failed=$((failed + 1)) ;;
    esac
done <smoke/rows
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
