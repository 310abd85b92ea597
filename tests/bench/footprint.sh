#!/bin/sh
# How much room the profile core takes: text of libtutti.so, stripped, and the heap of predictions.
# Usage: tests/bench/footprint.sh [FOLDER]     (FOLDER: for what is built, build-embedded)
# Prints one line; 1: a bar does not hold, 77: no such build here.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:-build-embedded}
text_max=1048576 # 1 MiB
heap_max=4194304 # 4 MiB
machine=dgx-h100:nodes=32

command -v cmake >/dev/null || { echo "footprint: skipped, no cmake here"; exit 77; }
command -v size >/dev/null || { echo "footprint: skipped, no size here (binutils)"; exit 77; }
generator=
! command -v ninja >/dev/null || generator=-GNinja
mkdir -p "$folder"
if ! { cmake -S "$top" -B "$folder/native" $generator -DTUTTI_PROFILE=core &&
       cmake --build "$folder/native" -j "$(nproc)"; } >"$folder/native.log" 2>&1; then
    cat "$folder/native.log"
    echo "footprint: the profile core does not build"
    exit 1
fi
strip -o "$folder/stripped.so" "$folder/native/libtutti.so"
text=$(size "$folder/stripped.so" | awk 'NR == 2 { print $1 }')
ring=$("$folder/native/heap" $machine ring)
auto=$("$folder/native/heap" $machine auto)
nccl=$("$folder/native/heap" $machine nccl)
echo "footprint: $text bytes of text (at most $text_max); heap of 256 ranks: ring $ring," \
    "auto $auto (at most $heap_max); nccl $nccl"
for heap in "$ring" "$auto"; do
    [ "$heap" -le $heap_max ] || { echo "footprint: more heap than $heap_max"; exit 1; }
done
[ "$text" -le $text_max ] || { echo "footprint: more text than $text_max"; exit 1; }
