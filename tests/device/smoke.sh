#!/bin/sh
# Artifacts and the program that runs them, for a machine with an NVIDIA GPU: smoke.sh BUILD-FOLDER OUT [ARCH], then there OUT/smoke-run.sh,
# which needs the driver and libc alone. Each artifact has kernels of `cuda` and of `cpu`, which are run beside each other (cuda_smoke.c).
set -e
build=$1 out=$2 arch=${3:-sm_90} here=$(cd "$(dirname "$0")" && pwd)
[ -n "$out" ] || { echo "smoke.sh BUILD-FOLDER OUT [ARCH]" >&2; exit 2; }
scripts=$here/../../attn_scripts
ninja -C "$build" tests/runtime/cuda_smoke compiler/driver/aulec runtime/tools/aule >/dev/null
mkdir -p "$out/smoke"
cp "$build/tests/runtime/cuda_smoke" "$build/runtime/tools/aule" "$out/"
cp "$here/smoke-run.sh" "$out/"
: >"$out/smoke/rows"
# script, types, shape; widths are 64
while read -r script types shape; do
    for type in $(echo "$types" | tr , ' '); do
        so=smoke/$script-$type.so
        if "$build/compiler/driver/aulec" "$scripts/$script.attn" --target cuda,cpu --arch "$arch,x86-64-v3" --dtype "$type" --width D=64 \
            -o "$out/$so" 2>"$out/smoke/log"; then
            echo "$so --shape $shape --dtype $type" >>"$out/smoke/rows"
        else
            echo "not built: $script $type: $(head -n 1 "$out/smoke/log")"
        fi
    done
done <<'ROWS'
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
du -sh "$out" | cut -f1
