#!/bin/sh
# Several processes of the backend nccl on the stand-ins: tests/runtime/nccl_processes.sh TUTTI. They
# play; and when one of them is killed, or stands still, the others end within the deadline and a
# second, and one line in all names it.
set -eu
tutti=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

fail() {
    echo "$1" >&2
    cat "$out"/* >&2
    exit 1
}

for collective in allreduce allgather alltoall reduce; do
    timeout 60 "$tutti" run -B nccl --launch 3 -c $collective -a all --library -b 1K -e 64K -f 64 \
        -w 1 -n 2 >"$out/$collective" 2>&1 || fail "$collective: not played"
    grep -q ' library ' "$out/$collective" || fail "$collective: no row of NCCL's own"
done

# lose SIGNAL: the second of three processes gets it in the middle of a long run.
lose() {
    "$tutti" run -B nccl --launch 3 -a ring -b 1M -e 1M -n 1000000 -w 1 -C 0 --deadline 2s \
        >"$out/$1" 2>&1 &
    parent=$!
    kids=""
    for _ in $(seq 100); do
        kids=$(pgrep -P $parent | tr '\n' ' ')
        [ "$(echo "$kids" | wc -w)" -eq 3 ] && break
        sleep 0.05
    done
    sleep 1
    kill "-$1" "$(echo "$kids" | cut -d ' ' -f 2)"
    since=$(date +%s%N)
    rc=0
    wait $parent || rc=$?
    took_ms=$((($(date +%s%N) - since) / 1000000))
    [ $rc -eq 1 ] || fail "$1: exit $rc"
    [ $took_ms -le 8000 ] || fail "$1: $took_ms ms"
    [ "$(wc -l <"$out/$1")" -eq 1 ] || fail "$1: more or less than a line"
    grep -q 'process 1 of 3' "$out/$1" || fail "$1: who is lost is not named"
}
lose KILL
lose STOP
