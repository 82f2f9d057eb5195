#!/bin/bash
# pack.sh BUILD-FOLDER OUT [ARCH]: puts everything that a machine with an NVIDIA GPU needs for the device suite into one folder; there
# `python3 OUT/run.py` runs it, without a compiler of C, a toolkit or a network. What runs is told in run.py; here it is built:
#   bin, lib    the programs and libraries, LLVM's among them
#   cases       single operations with what the interpreter expects (cuda_runner.c)
#   smoke       artifacts with kernels of `cuda` and of `cpu`, and the shapes to run them with (cuda_smoke.c)
#   tree        scripts, tests and the Python package, as they lie in the checkout
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) root=$(cd "$here/../.." && pwd)
[ $# -ge 2 ] || { echo "pack.sh BUILD-FOLDER OUT [ARCH]" >&2; exit 2; }
build=$1 out=$2 arch=${3:-sm_90}

mkdir -p "$out"
out=$(cd "$out" && pwd)
for folder in bin lib cases smoke tree; do
    rm -rf "${out:?}/$folder"
    mkdir "$out/$folder"
done
ninja -C "$build" runtime/libaule.so.0 compiler/driver/libaulec.so.0 compiler/driver/aulec runtime/tools/aule demo/demo tests/runtime/cuda_{runner,smoke} \
    tests/exec/{linear,scripts,sums}_test tests/fuzz/tables_fuzz tests/codegen/{cuda,units,lowered_units,host_ops,host_control,host_memory,host_random}_test >/dev/null

# ---- programs and libraries
programs=("$build"/{compiler/driver/aulec,runtime/tools/aule,demo/demo,tests/runtime/cuda_{runner,smoke},tests/exec/{linear,scripts,sums}_test,tests/fuzz/tables_fuzz})
for library in runtime/libaule compiler/driver/libaulec; do
    strip -o "$out/lib/${library##*/}.so.0" "$build/$library.so.0"
done
for program in "${programs[@]}"; do
    strip -o "$out/bin/$(basename "$program")" "$program"
done
# LLVM and what it needs beyond the libraries of C and C++, unless it is in libaulec (-Dllvm=static) or on that machine (AULE_WITHOUT_LLVM).
if [ -z "${AULE_WITHOUT_LLVM:-}" ]; then
    ldd "$build/compiler/driver/libaulec.so.0" | awk '/=> \// && !/lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so/ { print $3 }' | while read -r library; do
        cp -L "$library" "$out/lib/"
    done
fi

# ---- single operations
export AULE_DEVICE_OUT=$out/cases
units=()
if [ "$arch" = sm_90 ]; then units=(units_test lowered_units_test); fi # their code runs there alone
for name in cuda_test "${units[@]}" host_ops_test host_control_test host_memory_test "host_random_test 1 100"; do
    # shellcheck disable=SC2086
    "$build"/tests/codegen/$name >"$out/log" 2>&1 || { tail -n 20 "$out/log"; exit 1; }
done
# The driver takes long to compile PTX; where there is an assembler, it is done here.
if ptxas=$(PATH=$PATH:/usr/local/cuda/bin command -v ptxas); then
    for ptx in "$out"/cases/*.ptx; do
        case $ptx in *-sm_90a-*) of=sm_90a ;; *) of=$arch ;; esac
        "$ptxas" "-arch=$of" "$ptx" -o "${ptx%.ptx}.cubin"
    done
fi

# ---- artifacts: script, types, shape; widths are 64
pack() { # ARCH WIDTH [END OF NAMES], rows
    local script types type shape so
    while read -r script types shape; do
        for type in ${types//,/ }; do
            so=smoke/$script-$type${3-}.so
            "$build/compiler/driver/aulec" "$root/attn_scripts/$script.attn" --target cuda,cpu --arch "$1,x86-64-v3" --dtype "$type" \
                --width "D=$2" -o "$out/$so"
            echo "$so --shape $shape --dtype $type" >>"$out/smoke/rows"
        done
    done
}
pack "$arch" 64 <<'ROWS'
mha f16,bf16,f32 B=2,H=3,S=200,T=333
gqa f16,bf16 B=2,H=8,Hk=2,S=257,T=257
alibi f16,bf16 B=1,H=4,S=512,T=512
softcap bf16 B=1,H=4,S=300,T=1000
sliding_window f16 B=1,H=4,S=1000,T=1000
rope bf16 B=2,H=2,S=129,T=129
sigmoid f16 B=1,H=3,S=127,T=65
attention_sink bf16 B=1,H=4,S=64,T=500
qk_norm f16 B=1,H=2,S=100,T=100
relative_bias f16 B=2,H=2,S=150,T=150,W=65
ROWS
# Groups of warps and tensor maps; with dQ in a kernel of its own at widths 80 and 256.
if [ "$arch" = sm_90 ]; then
    pack sm_90a 64 -groups-64 <<'ROWS'
mha f16,bf16 B=2,H=3,S=200,T=333
alibi bf16 B=1,H=4,S=512,T=512
sliding_window bf16 B=1,H=4,S=1000,T=1000
relative_bias f16 B=2,H=2,S=150,T=150,W=65
attention_sink bf16 B=1,H=4,S=64,T=500
sigmoid f16 B=1,H=3,S=128,T=65
ROWS
fi
if [ "${arch%a}" = sm_90 ]; then
    pack sm_90a 128 -groups-128 <<'ROWS'
gqa f16,bf16 B=2,H=8,Hk=2,S=257,T=257
softcap bf16 B=1,H=4,S=300,T=1000
mha bf16 B=1,H=2,S=640,T=700
ROWS
    pack sm_90a 256 -groups-256 <<'ROWS'
gqa bf16 B=1,H=4,Hk=2,S=333,T=333
ROWS
    pack sm_90a 80 -groups-80 <<'ROWS'
sliding_window f16 B=1,H=4,S=500,T=500
ROWS
fi

# Steps of a server, by single warps: kernels for few queries, joins, lists of work, batches of few and many.
"$build/compiler/driver/aulec" "$root/attn_scripts/gqa.attn" --serve --no-grad --target cuda --arch "${arch%a}" --dtype bf16 --width D=64 -o "$out/smoke/served.so"
layouts=$(cat "$root/tests/fuzz/tables-layouts.txt")
"$build/compiler/driver/aulec" "$root/attn_scripts/gqa.attn" --layout "$layouts" --no-grad --target cuda --arch "${arch%a}" --dtype f32,bf16 --width D=16 -o "$out/smoke/tables.so" 2>"$out/log" ||
    { cat "$out/log"; exit 1; }

# What racecheck is to watch, and what shows that it must be so (sanitizer_sees.cu).
watched=$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here python3 -c 'import run; print(*run.WATCHED)')
for so in $watched; do
    if grep -qs mbarrier.arrive "$out/$so"; then
        python3 "$here/for_sanitizer.py" "$out/$so" "$out/${so%.so}-watched.so"
    fi
done
if nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc) && [ "${arch%a}" = sm_90 ]; then
    "$nvcc" -arch=sm_90a -cudart static -o "$out/bin/sanitizer_sees" "$here/sanitizer_sees.cu"
fi

# ---- what is read there
(cd "$root" && git ls-files -z attn_scripts demo python docs/tutorial.md docs/language.md docs/recipes.md 'tests/data/minilm_l*' 'tests/data/smollm2_layer12_[kqvo]*' tests/python tests/tools/parts.py tests/tools/covering.py tests/fuzz/corpus/tables tests/fuzz/words-arrays.txt tests/driver/checked_test.py tests/exec/linear tests/exec/scripts tests/exec/sums \
    tests/front/examples |
    xargs -0 cp --parents -t "$out/tree")
cp "$here/run.py" "$out/"
rm -f "$out/log"
du -sh "$out"
