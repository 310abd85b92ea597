#!/bin/sh
# A machine measured, predicted and compared by a job of MPI, as its user would do it:
# tests/runtime/mpi_calibrate.sh LAUNCHER TUTTI. Exits 77, and says so, where the launcher is not there.
set -eu
under=$(dirname "$0")/mpi_under.sh
launcher=$1 tutti=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

job() {
    status=0
    "$under" "$launcher" 2 "$tutti" "$@" >"$dir/out" 2>"$dir/err" || status=$?
    if [ "$status" -eq 77 ]; then
        cat "$dir/out"
        exit 77
    fi
}

# ends WITH what was asked: exit code, then what the output has to hold, once.
ends() {
    code=$1 file=$2 times=$3 pattern=$4
    shift 4
    if [ "$status" -ne "$code" ] || [ "$(grep -c -- "$pattern" "$dir/$file")" -ne "$times" ]; then
        echo "$*: exit $status, expected $code and '$pattern' $times times:"
        cat "$dir/out" "$dir/err"
        exit 1
    fi
}

job calibrate -B mpi -e 96K -O "$dir/here.local"
ends 0 out 1 '^# fit: .* median ' calibrate # one process speaks
grep -q '^backend mpi$' "$dir/here.local"
grep -q '^processes 2$' "$dir/here.local"
grep -q '^send_near_GBps ' "$dir/here.local" # what says something of processes is there

job validate -B mpi -a ring -b 64K -n 3 --calib "$dir/here.local"
ends 0 out 1 '^# error of 1 size: .*null model: ' validate

job run -B mpi -a ring -b 64K -n 3 --predict --calib "$dir/here.local" --format csv
ends 0 out 1 ',ring,[^,]*,' run
ends 0 out 1 'predicted_us' run

# Without a file it is measured first.
job run -B mpi -a ring -b 64K -n 3 --predict --format csv
ends 0 out 1 'predicted_us' run

# What threads have measured says nothing of it.
"$tutti" calibrate -B threads -g 1 -e 48K -O "$dir/threads.local" --format csv >"$dir/out"
job validate -B mpi -a ring -b 64K --calib "$dir/threads.local"
ends 2 err 1 "it is of backend 'threads' (one that 'calibrate -B mpi' has written)" validate
echo "calibrate, validate and run --predict agree on -B mpi"
