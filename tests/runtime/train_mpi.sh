#!/bin/sh
# Trained by processes of MPI the weights are those of threads, bit for bit:
# tests/runtime/train_mpi.sh LAUNCHER TUTTI. Exits 77, and says so, where there is no launcher.
set -eu
launcher=$1 tutti=$2
under=$(dirname "$0")/mpi_under.sh

weights() { sed -n 's/.*"weights":"\([0-9a-f]*\)".*/\1/p'; }

failed=0
check() { # processes, options of both
    processes=$1
    shift
    by_mpi=$("$under" "$launcher" "$processes" "$tutti" train -B mpi "$@" | weights)
    by_threads=$("$tutti" train -B threads -g "$processes" "$@" | weights)
    if [ -z "$by_mpi" ] || [ "$by_mpi" != "$by_threads" ]; then
        echo "$processes processes, $*: '$by_mpi', and by threads '$by_threads'"
        failed=1
    fi
}

"$under" "$launcher" 1 true >/dev/null || exit $?
same="--model mlp --steps 6 --batch 16 --dropout 0.2 --optimizer adam --check-sync"
# shellcheck disable=SC2086
check 2 $same --strategy multiworkermirrored
# shellcheck disable=SC2086
check 4 $same --strategy multiworkermirrored --bytes-per-pack 1kB --all-reduce RING
# shellcheck disable=SC2086
check 3 $same --strategy fsdp --accumulate 2
check 3 --model mlp --steps 4 --batch 16 --strategy ddp --compress power-sgd:2
check 2 --model bag-of-words --steps 4 --batch 16 --compress top-k:5
exit $failed
