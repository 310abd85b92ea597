#!/bin/bash
# The simulator: messages a second, nanoseconds a message and peak memory, one process a case.
#
# Usage: tests/bench/sim.sh [--quick] [--seconds S] [--ranks N] [--models "alphabeta fair"] [--build DIR] [--write]
#
# First a table of cases (sim_bench without arguments); then ring, trees, halving-doubling, hierarchical
# and torus by number of ranks, 64 to 1,048,576 (--ranks: at most N), unfolded and folded, under each
# of the models. A case has S CPU seconds (20) and 4 GiB; what needs more, or cannot be folded, says
# so; larger ones than one that took too long are not tried. All figures are CPU seconds of the whole process.
# --quick: the scale up to 512 ranks only. --write: puts what it prints into tests/bench/sim.md,
# between the two marks there, with the date, the machine and the commit.
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
    --help | -h) sed -n '2,12s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) echo "sim.sh: unknown option '$1' (--quick, --seconds, --ranks, --models, --build, --write)" >&2 && exit 2 ;;
    esac
    shift
done

bench=$build/tests/sim_bench
if [ ! -x "$bench" ]; then
    [ -f "$build/CMakeCache.txt" ] || cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release >/dev/null
    cmake --build "$build" --target sim_bench >/dev/null
fi

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
