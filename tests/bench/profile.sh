#!/bin/bash
# A profile of a minute of simulation: is anything allocated, hashed or sorted while events are played?
#
# Usage: tests/bench/profile.sh [--turns N] [--build DIR]
#
# Samples (perf record -g -F 500) cases in turn, --turns times (6: a minute of CPU): data flow and by
# the clock, alphabeta and fair, with jitter and without, long enough each that making the machine and
# its connections is little. Prints the hottest functions, and all samples in functions that allocate, look up a hash
# table, or sort, with the callers they have; exit 1 if those are more than one sample in a hundred.
set -euo pipefail
cd "$(dirname "$0")/../.."

turns=6 build=build
while [ $# -gt 0 ]; do
    case "$1" in
    --turns) turns=$2 && shift ;;
    --build) build=$2 && shift ;;
    --help | -h) sed -n '2,10s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) echo "profile.sh: unknown option '$1' (--turns, --build)" >&2 && exit 2 ;;
    esac
    shift
done
command -v perf >/dev/null || { echo "profile.sh: no perf here (linux-perf)" >&2 && exit 77; }

# topology, algorithm, model, jitter
cases="ring:n=4096 ring alphabeta 0
ring:n=4096 ring alphabeta 0.2
switch:n=4096 ring fair 0.2
dgx-h100:nodes=2048 hierarchical alphabeta 0
torus:16x16x16 torus fair 0.2
torus:16x16x16 torus alphabeta 0
switch:n=1024 double-binary-tree alphabeta 0
switch:n=1024 double-binary-tree alphabeta 0.2
switch:n=128 double-binary-tree fair 0
switch:n=128 double-binary-tree fair 0.2"
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT

play() {
    for _ in $(seq "$turns"); do
        while read -r topology algorithm model jitter; do
            "$build/tests/sim_bench" --play "$topology" allreduce "$algorithm" 1G "$model" "$jitter"
        done <<<"$cases"
    done
}
export -f play
export cases turns build

perf record -q -g -F 500 -o "$data/perf" bash -c play
# One line a sample: the function, and who called it.
perf script -i "$data/perf" --comm sim_bench -F ip,sym 2>/dev/null |
    awk 'NF == 0 { if (n) print leaf, caller; n = 0; caller = "-"; next } { n++ } n == 1 { leaf = $2 } n == 2 { caller = $2 }' >"$data/samples"
total=$(wc -l <"$data/samples")
echo "$total samples; most are in:"
cut -d' ' -f1 "$data/samples" | sort | uniq -c | sort -rn | head -25 | awk -v total="$total" '{ printf "  %5.1f %%  %s\n", 100 * $1 / total, $2 }'
# Under jitter a random number is drawn for each message by tutti_random_hash: that is no table, unless
# tutti_wires_find asks, as it does for connections that are new.
grep -E '^[^ ]*(malloc|calloc|realloc|free([^z]|$)|hash|place_of|sort|memalign|brk|mmap)' "$data/samples" |
    grep -vE '^tutti_random_hash (tutti_stretch_of|tutti_flow_play|send_start)$' | sort | uniq -c | sort -rn >"$data/suspects" || true
echo "in functions that allocate, look up a table or sort, with who called them:"
head -20 "$data/suspects" | sed 's/^/  /'
awk -v total="$total" '{ n += $1 } END { printf "together %d samples, %.2f %%\n", n, 100 * n / total; exit 100 * n > total }' "$data/suspects"
