#!/bin/sh
# `tutti run` on the stand-ins has the columns of nccl-tests: out of place and in place, all types,
# what the host takes, what is predicted, and NCCL's own estimate: tests/gpu/run_columns.sh TUTTI.
set -eu
tutti=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

fail() {
    echo "$1" >&2
    cat "$out"/* >&2
    exit 1
}

# column NAME FILE: its cells.
column() {
    awk -F , -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i; next }
        { print $at }' "$2"
}

# rows OPTIONS...: played, and right wherever it was played.
rows() {
    "$tutti" run "$@" -w 1 -n 2 --format csv >"$out/rows" || fail "not played: $*"
    [ -z "$(column wrong "$out/rows" | grep -v '^0$')" ] || fail "wrong: $*"
    [ -z "$(column in_place_wrong "$out/rows" | grep -v '^0\{0,1\}$')" ] || fail "wrong in place: $*"
}

for collective in allreduce reducescatter allgather broadcast reduce; do
    rows -B cuda -g 3 -c $collective -a all -b 3000
    [ "$(column in_place_wrong "$out/rows" | grep -c 0)" -ge 3 ] || fail "$collective: not in place"
    rows -B nccl -g 3 -c $collective -a all -b 3000 --library
    [ "$(column in_place_wrong "$out/rows" | tail -n 1)" = 0 ] || fail "$collective: NCCL's own"
done
rows -B cuda -g 3 -c alltoall -a direct -b 3000
[ -z "$(column in_place_time_us "$out/rows")" ] || fail "an all-to-all in place"
rows -B cuda -g 2 -t 2 -a two-shot -b 1000 -d all -o all
[ "$(column type "$out/rows" | sort -u | wc -l)" -eq 8 ] || fail "not all types"
[ "$(column redop "$out/rows" | sort -u | wc -l)" -eq 5 ] || fail "not all operators"
rows -B cuda -a ring -b 1K -e 64K -f 8 --in-place off --graph on
[ -z "$(column in_place_time_us "$out/rows" | tr -d '\n')" ] || fail "in place, though off"

# The host has handed an iteration over before that has ended.
for backend in cuda nccl; do
    rows -B $backend -g 2 -a ring -b 16K --report-cputime 1
    awk -v host="$(column host_us "$out/rows")" -v time="$(column time_us "$out/rows")" \
        'BEGIN { exit !(host > 0 && host < 3 * time) }' || fail "$backend: the host's time"
done

# A trace in times of the GPU, within what the host saw.
for backend in cuda nccl; do
    "$tutti" run -B $backend -g 3 -a ring -b 16K -w 1 -n 1 --in-place off --trace "$out/trace.csv" \
        --format json >"$out/rows" || fail "$backend: no trace"
    grep -q '"trace_error_us": [0-9]' "$out/rows" || fail "$backend: how exact is the trace?"
    time_us=$(sed -n 's/.*"time_us": \([0-9.]*\).*/\1/p' "$out/rows")
    awk -F , -v us="$time_us" 'NR > 1 && ($1 < 0 || $2 < $1 || $2 > us * 1e6 + 1e4) { exit 1 }' \
        "$out/trace.csv" || fail "$backend: a step outside of the iteration"
done

# Predicted from other sizes, measured here or before; NCCL's estimate on several ranks.
"$tutti" calibrate -B cuda -g 2 -e 60K -O "$out/here.local" >/dev/null || fail "not calibrated"
rows -B cuda -g 2 -a ring,two-shot -b 1K -e 4K --predict --calib "$out/here.local"
[ "$(column predicted_us "$out/rows" | grep -c '^[0-9]')" -eq 4 ] || fail "cuda: not predicted"
rows -B nccl -g 2 -a ring -b 1K --library --predict
[ "$(column predicted_us "$out/rows" | grep -c '^[0-9]')" -eq 1 ] || fail "nccl: not predicted"
[ "$(column estimate_us "$out/rows" | grep -c '^[0-9]')" -eq 1 ] || fail "nccl: no estimate"
"$tutti" run -B nccl -g 1 -a ring -b 1K --library -w 1 -n 2 >"$out/rows" || fail "one rank"
grep -q '^# estimate: on one rank' "$out/rows" || fail "why one rank has no estimate"
