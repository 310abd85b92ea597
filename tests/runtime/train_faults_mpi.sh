#!/bin/sh
# A training by processes of MPI of which one is told to stop, and of the rest of it one is killed:
# what is left goes on from the newest checkpoint to the weights of threads that nothing happens to.
# tests/runtime/train_faults_mpi.sh LAUNCHER TUTTI. Exits 77, and says so, where there is no
# launcher of Open MPI.
set -eu
launcher=$1 tutti=$2
under=$(dirname "$0")/mpi_under.sh
"$under" "$launcher" 1 true >/dev/null || exit $?
if ! "$launcher" --version 2>&1 | grep -qE "OpenRTE|Open MPI"; then
    echo "skipped: codes of processes as Open MPI's mpirun passes them on; Hydra's are not held yet"
    exit 77
fi
world=$(mktemp -d)
trap 'rm -rf "$world"' EXIT
# More steps than lines fit into the pipe that they are read from: the last is still to come.
train="train --model linear-regression --steps 1000 --global-batch 8 --optimizer adam"
saves="--checkpoint $world/saved --save-every 20 --stop-code 43"

weights() { sed -n 's/.*"weights":"\([0-9a-f]*\)".*/\1/p'; }

# A job of two; the one of rank 1 gets a signal once 30 steps are printed.
strike() { # SIGNAL
    rm -f "$world"/process*
    {
        # shellcheck disable=SC2016,SC2086
        "$under" "$launcher" 2 sh -c 'echo $$ >"$0/process${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"; exec "$@"' \
            "$world" "$tutti" $train -B mpi $saves 2>"$world/said" && code=0 || code=$?
        echo "$code" >"$world/code"
    } | {
        lines=0
        while read -r line; do
            lines=$((lines + 1))
            [ "$lines" != 30 ] || kill "-$1" "$(cat "$world/process1")"
            echo "$line"
        done
    } >"$world/printed"
}

fail() {
    echo "$*, and it said:"
    tail -n 2 "$world/printed"
    cat "$world/said"
    exit 1
}

strike TERM
[ "$(cat "$world/code")" = 43 ] || fail "told to stop: code $(cat "$world/code"), not 43"
step=$(sed -n 's/^{"stopped":{"step":\([0-9]*\)}}$/\1/p' "$world/printed")
strike KILL
[ "$(cat "$world/code")" != 0 ] || fail "killed: code 0"
grep -q "restored step $step from" "$world/said" || fail "it did not go on at step '$step'"
# shellcheck disable=SC2086
seen=$("$under" "$launcher" 2 "$tutti" $train -B mpi $saves 2>"$world/said" | weights)
grep -q "restored step" "$world/said" || fail "it began anew"
! grep -q "passed over" "$world/said" || fail "a checkpoint is damaged"
# shellcheck disable=SC2086
expected=$("$tutti" $train -B threads -g 2 | weights)
[ "$seen" = "$expected" ] || fail "weights '$seen', undisturbed '$expected'"
