#!/bin/bash
# All-reduce of float32 sums: the threads backend beside Open MPI's MPI_Allreduce on this machine.
#
# Usage: tests/bench/allreduce.sh [--quick] [--ranks "2 4"] [--reps N] [--build DIR] [--keep FILE]
#
# The contenders take turns, --reps times (9), so that whatever else the machine does falls on all
# alike; best and median are shown. Non-zero data, out of place, warm: each timing plays a prepared
# schedule (or MPI call) again and again without a barrier, as nccl-tests does.
#   tutti     tutti_backend_play on threads, `auto`: the fastest algorithm of a short trial
#   ompi      MPI_Allreduce as Open MPI comes, over shared memory
#   ompi-seg  the best setting we know: segmented ring of 1 MiB, and a malloc that keeps its memory
# A hop is the one-way hand-off between the two processors, probed before and after each timing:
# virtual processors are moved between neighbouring and distant cores, which changes everything.
# bound: every input read and every output written once, 2 n S bytes, at the rate of out += in over
# the same buffers, best of all turns. Nothing is faster that goes through memory.
set -euo pipefail
cd "$(dirname "$0")/../.."

sizes=8,128,1024,4096,16384,65536,262144,1048576,4194304,16777216,67108864,268435456
reps=9 ranks="2 4" build=build keep=""
while [ $# -gt 0 ]; do
    case "$1" in
    --quick) reps=3 sizes=8,1024,65536,1048576,16777216,67108864 ;;
    --ranks) ranks=$2 && shift ;;
    --reps) reps=$2 && shift ;;
    --build) build=$2 && shift ;;
    --keep) keep=$2 && shift ;;
    --help | -h) sed -n '2,17s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) echo "allreduce.sh: unknown option '$1' (--quick, --ranks, --reps, --build, --keep)" >&2 && exit 2 ;;
    esac
    shift
done

if [ ! -f "$build/CMakeCache.txt" ]; then
    cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release >/dev/null
fi
cmake --build "$build" --target allreduce_bench >/dev/null
mpi=""
if command -v mpirun.openmpi >/dev/null && cmake --build "$build" --target allreduce_peer_mpi >/dev/null 2>&1; then
    mpi=yes
else
    echo "allreduce.sh: no Open MPI here (openmpi-bin libopenmpi-dev): tutti alone" >&2
fi
results=$(mktemp)
trap 'rm -f "$results"' EXIT

mpi_run() { # RANKS, then options and the command
    local n=$1 bind="--bind-to none"
    shift
    [ "$n" -gt "$(nproc)" ] || bind="--bind-to core"
    # shellcheck disable=SC2086
    mpirun.openmpi --allow-run-as-root --oversubscribe $bind -np "$n" --mca pml ob1 --mca btl vader,self "$@"
}

play() { # CONTENDER RANKS
    case "$1" in
    tutti) "$build/tests/allreduce_bench" tutti "$sizes" "$2" ;;
    ompi) mpi_run "$2" "$build/tests/allreduce_peer_mpi" ompi "$sizes" ;;
    ompi-seg)
        MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184 mpi_run "$2" \
            --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm 5 \
            --mca coll_tuned_allreduce_algorithm_segmentsize 1048576 \
            "$build/tests/allreduce_peer_mpi" ompi-seg "$sizes"
        ;;
    esac
}

load_before=$(cut -d' ' -f1-3 /proc/loadavg)
for n in $ranks; do
    for rep in $(seq "$reps"); do
        for contender in tutti ${mpi:+ompi ompi-seg}; do
            [ ! -t 2 ] || printf '\r%s ranks, turn %s of %s: %-10s' "$n" "$rep" "$reps" "$contender" >&2
            play "$contender" "$n" >>"$results"
        done
    done
done
[ ! -t 2 ] || printf '\r%60s\r' '' >&2
[ -z "$keep" ] || cp "$results" "$keep"

echo "all-reduce, float32 sum, out of place, us: best and median of $reps; $(nproc) processors:" \
    "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1); load $load_before before," \
    "$(cut -d' ' -f1-3 /proc/loadavg) after"
awk '
function order(list, count,    i, j, value) {
    for (i = 2; i <= count; i++) {
        value = list[i]
        for (j = i - 1; j >= 1 && list[j] > value; j--)
            list[j + 1] = list[j]
        list[j + 1] = value
    }
}
function figures(key,    list, i) { # sets best and median
    for (i = 1; i <= seen[key]; i++)
        list[i] = time[key, i]
    order(list, seen[key])
    best = list[1]
    median = list[int((seen[key] + 1) / 2)]
}
function show(us) { return us < 100 ? sprintf("%.2f", us) : sprintf("%.0f", us) }
function pair(key) {
    if (!(key in seen))
        return sprintf("%9s %9s", "-", "-")
    figures(key)
    return sprintf("%9s %9s", show(best), show(median))
}
{
    point = $2 " " $3
    if (!(point in known)) {
        known[point] = 1
        points[++point_count] = point
    }
    key = point " " $1
    time[key, ++seen[key]] = $4
    if ($1 == "tutti")
        how[point] = ++chosen[point, $7] > chosen[point, how[point]] + 0 ? $7 : how[point]
    for (i = 5; i <= 6; i++) {
        if (!(point in low) || $i < low[point]) low[point] = $i
        if ($i > high[point]) high[point] = $i
    }
}
END {
    # Between the two placements known: 45 to 140 ns side by side, from 160 apart.
    middle = 150
    printf "%5s %10s %4s %9s | %9s %9s %-18s | %9s %9s | %9s %9s | %6s %6s | %7s\n", "ranks", "bytes",
        "", "hop ns", "tutti", "median", "algorithm", "ompi", "median", "ompi-seg", "median",
        "times", "median", "% bound"
    for (p = 1; p <= point_count; p++) {
        point = points[p]
        split(point, word, " ")
        tag = high[point] <= middle ? "near" : low[point] > middle ? "far" : "mix"
        figures(point " tutti")
        ours = best
        ours_median = median
        theirs = theirs_median = 0
        for (c = 1; c <= 2; c++) {
            key = point " " (c == 1 ? "ompi" : "ompi-seg")
            if (key in seen) {
                figures(key)
                if (theirs == 0 || best < theirs) theirs = best
                if (theirs_median == 0 || median < theirs_median) theirs_median = median
            }
        }
        share = "-"
        if ((point " bound") in seen) {
            figures(point " bound")
            share = sprintf("%.0f", 100 * best / ours)
        }
        printf "%5d %10d %4s %4d-%-4d | %9s %9s %-18s | %s | %s | %6s %6s | %7s\n", word[1], word[2], tag,
            low[point], high[point], show(ours), show(ours_median), how[point], pair(point " ompi"),
            pair(point " ompi-seg"), theirs ? sprintf("%.2f", theirs / ours) : "-",
            theirs ? sprintf("%.2f", theirs_median / ours_median) : "-", share
        two = two || word[1] == 2
        if (word[1] == 2 && word[2] <= 1024 && ours > 1.5)
            short = short sprintf("  %s bytes: %.2f us, above 1.5\n", word[2], ours)
        need = word[2] >= 16777216 ? 1.5 : 1
        if (word[1] == 2 && word[2] >= 65536 && theirs && theirs < need * ours)
            short = short sprintf("  %s bytes: %.2f times, below %.1f\n", word[2], theirs / ours, need)
    }
    print "times: the better of the two Open MPI settings over tutti, of bests and of medians"
    if (!two)
        exit
    print short == "" ? "two ranks: 8 B to 1 KiB within 1.5 us; as fast from 64 KiB up, 1.5 times from 16 MiB up" : \
        "two ranks, short of the bar (1.5 us up to 1 KiB; 1 time from 64 KiB, 1.5 times from 16 MiB):\n" short
}' "$results"
