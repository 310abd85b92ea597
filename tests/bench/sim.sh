#!/bin/bash
# The simulator: messages a second, nanoseconds a message and peak memory, one process a case.
#
# Usage: tests/bench/sim.sh [--quick] [--seconds S] [--ranks N] [--models "alphabeta fair"] [--build DIR] [--write]
#
# First a table of cases (sim_bench without arguments); then ring, trees, halving-doubling, hierarchical
# and torus by number of ranks, 64 to 1,048,576 (--ranks: at most N), unfolded and folded, under each
# of the models. A case has S CPU seconds (20) and 4 GiB; what needs more, or cannot be folded, says
# so; larger ones than one that took too long are not tried. All figures are CPU seconds of the whole process.
# Last, commands as users give them, under the default costs, with 10 S each; the first of them
# measures the processor, so that figures of different machines can be compared.
# --quick: the scale up to 512 ranks, and of those commands the first, only. --write: puts what it
# prints into tests/bench/sim.md, between the two marks there, with the date, the machine and the
# commit.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=20 ranks=1048576 models="alphabeta fair" build=build quick="" write=""
while [ $# -gt 0 ]; do
    case "$1" in
    --quick) quick=yes ranks=512 ;;
    --seconds) seconds=$2 && shift ;;
    --ranks) ranks=$2 && shift ;;
    --models) models=$2 && shift ;;
    --build) build=$2 && shift ;;
    --write) write=yes ;;
    --help | -h) sed -n '2,15s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) echo "sim.sh: unknown option '$1' (--quick, --seconds, --ranks, --models, --build, --write)" >&2 && exit 2 ;;
    esac
    shift
done

bench=$build/tests/sim_bench
if [ ! -x "$bench" ] || [ ! -x "$build/tutti" ]; then
    [ -f "$build/CMakeCache.txt" ] || cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release >/dev/null
    cmake --build "$build" --target sim_bench tutti >/dev/null
fi

# A command: its CPU seconds, and how many times those of the first one.
unit=
measure_command() {
    local took
    took=$(
        ulimit -t $((10 * seconds))
        TIMEFORMAT='%U %S'
        { time "$build/tutti" "$@" --jobs=1 >/dev/null 2>&1; } 2>&1
    ) || { printf '%8s %8s  tutti %s\n' fails - "$*" && return; }
    took=$(awk '{ print $1 + $2 }' <<<"$took")
    unit=${unit:-$took}
    awk -v took="$took" -v unit="$unit" -v what="$*" \
        'BEGIN { printf "%8.2f %8.1f  tutti %s\n", took, took / (unit > 0 ? unit : 0.01), what }'
}

measure_commands() {
    printf '%8s %8s  %s\n' 'CPU s' 'x first' 'command, with --jobs=1'
    measure_command predict ring:n=4096,bw=50GB/s,lat=500ns -a ring -b 1G -e 1G \
        --model alphabeta --fold off
    [ -z "$quick" ] || return 0
    measure_command predict ring:n=1048576 -a ring -b 1M -e 1M
    measure_command predict dgx-h100:nodes=131072 -a hierarchical -b 1G -e 1G
    measure_command predict dgx-h100:nodes=131072 -a hierarchical -b 1G -e 1G \
        --perturb slow-node=1%:1.2
    measure_command predict dgx-h100:nodes=512 -a nccl -b 8 -e 8G -f 2
    measure_command compare dgx-h100:nodes=512 -b 8 -e 8G -f 2
}

measure() {
    processor=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -1)
    echo "$(date -u +%Y-%m-%d), $(nproc) x ${processor:-unknown processor}, commit $(git log -1 --format=%h 2>/dev/null || echo unknown)"
    if [ -z "$quick" ]; then
        echo
        "$bench"
    fi
    for model in $models; do
        echo
        "$bench" --scale "$model" "$ranks" "$seconds"
    done
    echo
    measure_commands
}

if [ -z "$write" ]; then
    measure
    exit 0
fi
table=$(mktemp)
trap 'rm -f "$table"' EXIT
measure | tee "$table"
awk -v table="$table" '
    /^<!-- end of what sim.sh prints -->$/ { skip = 0 }
    !skip { print }
    /^<!-- what sim.sh prints -->$/ {
        skip = 1
        print "```"
        while ((getline line < table) > 0) print line
        print "```"
    }' tests/bench/sim.md >"$table.md"
mv "$table.md" tests/bench/sim.md
