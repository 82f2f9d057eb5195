#!/bin/sh
# The header of every script is C99 and C++11, without warnings: headers.sh AULEC SCRIPTS
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for script in "$2"/*.attn; do
    "$1" "$script" --emit=header --target cpu --dtype f32 -o "$dir/x.h"
    printf '#include "x.h"\n' > "$dir/x.c"
    cc -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only "$dir/x.c"
    c++ -x c++ -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only "$dir/x.c"
done
