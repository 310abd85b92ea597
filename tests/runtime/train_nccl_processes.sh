#!/bin/sh
# Training on the backend nccl by several processes, on the stand-ins: train_nccl_processes.sh TUTTI
# [MPIRUN]. They come to the weights of threads, to the bit where two numbers are added; and when
# one of them is killed, or stands still, the others end soon, and one line names what was lost.
set -eu
tutti=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

fail() {
    echo "$1" >&2
    cat "$out"/* >&2
    exit 1
}

model="--model linear-regression --steps 4 --global-batch 16 --format json"

# weights FILE: the hash of the last line.
weights() {
    sed -n 's/.*"weights":"\([0-9a-f]*\)".*/\1/p' "$out/$1"
}

# same NAME OTHER COMMAND...: comes to the weights that OTHER has come to.
same() {
    name=$1
    other=$2
    shift 2
    timeout 60 "$@" >"$out/$name" 2>"$out/$name.err" || fail "$name: not trained"
    [ -n "$(weights "$name")" ] || fail "$name: no weights"
    [ "$(weights "$name")" = "$(weights "$other")" ] || fail "$name: other weights than $other"
}

same threads threads "$tutti" train -B threads -g 2 $model
same alone threads "$tutti" train -B nccl -g 2 $model
same launched threads "$tutti" train -B nccl --launch 2 $model
same four four "$tutti" train -B nccl -g 4 --strategy hsdp --shard 2 $model
same four-launched four "$tutti" train -B nccl --launch 2 -g 4 --strategy hsdp --shard 2 $model
same compressed compressed "$tutti" train -B threads -g 2 --compress top-k:50 $model
same compressed-launched compressed "$tutti" train -B nccl --launch 2 --compress top-k:50 $model
[ $# -lt 2 ] || same mpirun threads env OMPI_ALLOW_RUN_AS_ROOT=1 \
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "$2" -n 2 "$tutti" train -B nccl $model


# As NCCL does it: calls return when they are in a stream, and what they do comes in its order.
queued="env TUTTI_NCCL_STANDIN_QUEUED=1"
same launched-queued threads $queued "$tutti" train -B nccl --launch 2 $model
same four-queued four $queued "$tutti" train -B nccl --launch 2 -g 4 --strategy hsdp --shard 2 \
    $model

# As TensorFlow starts them; a port that nobody has.
port=$((20000 + $$ % 20000))
cluster='"cluster":{"worker":["127.0.0.1:'$port'","127.0.0.1:'$((port + 1))'"]}'
TF_CONFIG='{'$cluster',"task":{"type":"worker","index":1}}' timeout 60 "$tutti" train -B nccl \
    $model >"$out/second" 2>&1 &
same tensorflow threads env TF_CONFIG='{'"$cluster"',"task":{"type":"worker","index":0}}' \
    "$tutti" train -B nccl $model
wait $! || fail "second: not trained"

# lose SIGNAL PATTERN: one of two gets it in the middle of a long run.
lose() {
    $queued "$tutti" train -B nccl --launch 2 --model linear-regression --steps 1000000 --global-batch 16 \
        --format json --deadline 2s >"$out/$1" 2>"$out/$1.err" &
    parent=$!
    for _ in $(seq 200); do
        [ -s "$out/$1" ] && break
        sleep 0.05
    done
    kids=$(pgrep -P $parent | tr '\n' ' ')
    since=$(date +%s%N)
    kill "-$1" "$(echo "$kids" | cut -d ' ' -f 2)"
    rc=0
    wait $parent || rc=$?
    took_ms=$((($(date +%s%N) - since) / 1000000))
    [ $rc -eq 1 ] || fail "$1: exit $rc"
    [ $took_ms -le 10000 ] || fail "$1: $took_ms ms"
    [ "$(wc -l <"$out/$1.err")" -eq 1 ] || fail "$1: more or less than a line"
    grep -q "$2" "$out/$1.err" || fail "$1: what is lost is not named"
}
lose KILL 'process 1 of 2'
lose STOP 'process 1 of 2'
queued=""
lose KILL 'process 1 of 2'

# A collective that does not come to its end, of processes that live.
rc=0
TUTTI_NCCL_STANDIN_QUEUED=1 TUTTI_NCCL_STANDIN_LATE_MS=60000 timeout 20 "$tutti" train -B nccl \
    --launch 2 --deadline 500ms $model >"$out/late" 2>"$out/late.err" || rc=$?
[ $rc -eq 1 ] || fail "late: exit $rc"
grep -q "rank [01], NCCL's own allreduce of .* among 2 ranks: the deadline of 0.5 s passed" \
    "$out/late.err" || fail "late: not said"

# A trace has the work of each layer and what it waits for, of each rank a track.
trace() {
    name=$1
    shift
    timeout 60 "$tutti" train "$@" --model mlp --steps 2 --global-batch 8 \
        --trace "$out/$name.json" >"$out/$name" 2>&1 || fail "$name: not traced"
    for word in hidden.forward classes.backward 'waits for allreduce' report optimizer; do
        [ "$(grep -c "\"$word" "$out/$name.json")" -ge 2 ] || fail "$name: no $word"
    done
}
trace trace-cuda -B cuda -g 2
trace trace-nccl -B nccl -g 2
trace trace-launched -B nccl --launch 2

# What NCCL chooses by itself; and one that cannot be had.
rc=0
"$tutti" train -B nccl -g 2 --model mlp --all-reduce ring 2>"$out/ring" || rc=$?
[ $rc -eq 2 ] || fail "ring: exit $rc"
grep -q "'ring' is a schedule, and with -B nccl NCCL chooses by itself (nccl or auto" \
    "$out/ring" || fail "ring: not said"
same nccl alone "$tutti" train -B nccl -g 2 --all-reduce NcclAllReduce $model
same auto alone "$tutti" train -B nccl --launch 2 --all-reduce auto $model
rc=0
TUTTI_NCCL_STANDIN_VERSION=22809 "$tutti" train -B nccl -g 2 $model 2>"$out/old" || rc=$?
[ $rc -eq 77 ] || fail "old: exit $rc"
grep -q 'NCCL 2.28.9 wants one each' "$out/old" || fail "old: not said"
