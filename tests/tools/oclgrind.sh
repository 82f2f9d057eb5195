#!/bin/sh
# Runs a program that uses OpenCL on Oclgrind's device, which watches every access of every work-item, and fails on any report: data
# races, accesses outside of buffers, barriers that not all reach, wrong uses of the API. (Its check for uninitialised reads stops at
# instructions that present compilers emit; the interpreter of the kernel IR has that check.)
#
#   tests/tools/oclgrind.sh PROGRAM [ARGUMENT...]
set -eu

if [ $# -eq 0 ]; then
    echo "usage: $0 PROGRAM [ARGUMENT...]" >&2
    exit 2
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
oclgrind --data-races --check-api --log "$log" "$@" || status=$?
if [ -s "$log" ]; then
    cat "$log" >&2
    echo "oclgrind has something to say about $1" >&2
    exit 1
fi
exit $status
