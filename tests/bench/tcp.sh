#!/bin/bash
# All-reduce of float32 sums over TCP on this host: the backend tcp beside Open MPI and MPICH.
#
# Usage: tests/bench/tcp.sh [--quick] [--ranks "2 4"] [--reps N] [--build DIR] [--keep FILE] [--sizes LIST]
#
# The contenders take turns, --reps times (9), so that whatever else the machine does falls on all
# alike; best and median are shown. Each timing plays a prepared schedule (or MPI call) again and
# again without a barrier, out of place, non-zero data. All run in a network namespace of their own
# whose congestion control is reno, if this user may make one; otherwise with the system's.
#   tutti  tutti_backend_play on tcp, a rank a process, the fastest algorithm of a short trial
#   ompi   MPI_Allreduce of Open MPI, forced to TCP over the loopback interface; what it takes from
#          the heap for a call is kept for the next (GLIBC_TUNABLES)
#   mpich  MPI_Allreduce of MPICH likewise; only with as many processors as ranks: it spins
#   raw    2 processes that send and receive as many bytes over one socket, as many in a call as
#          tutti, and do nothing else
# times: the faster of the two peers over tutti, of bests and of medians. % raw: raw's time over tutti's.
# Below: what a cache line takes from one processor to the other. A virtual machine's may be moved
# apart and together again, which changes everything here up to fourfold: then run it again.
set -euo pipefail
cd "$(dirname "$0")/../.."

sizes=1024,4096,16384,65536,262144,1048576,4194304,16777216,67108864,268435456
reps=9 ranks="2 4" build=build keep=""
while [ $# -gt 0 ]; do
    case "$1" in
    --quick) reps=3 sizes=1024,65536,1048576,16777216 ;;
    --ranks) ranks=$2 && shift ;;
    --reps) reps=$2 && shift ;;
    --build) build=$2 && shift ;;
    --keep) keep=$2 && shift ;;
    --sizes) sizes=$2 && shift ;;
    --help | -h) sed -n '2,19s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) echo "tcp.sh: unknown option '$1' (--quick, --ranks, --reps, --build, --keep, --sizes)" >&2 && exit 2 ;;
    esac
    shift
done
[ -f "$build/CMakeCache.txt" ] || cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$build" --target tcp_bench >/dev/null

apart=""
if unshare -n true 2>/dev/null; then
    # shellcheck disable=SC2016
    apart='unshare -n bash -c "ip link set lo up; echo reno >/proc/sys/net/ipv4/tcp_congestion_control; exec \"\$@\"" -'
else
    echo "tcp.sh: no namespaces here; congestion control is that of the system" >&2
fi
peers=$(mktemp -d)
trap 'rm -rf "$peers"' EXIT
for kind in openmpi mpich; do
    if command -v "mpicc.$kind" >/dev/null && command -v "mpirun.$kind" >/dev/null; then
        "mpicc.$kind" -O2 -std=gnu11 -D_GNU_SOURCE -I. tests/bench/allreduce_peer_mpi.c -o "$peers/$kind" -lpthread
    else
        echo "tcp.sh: no $kind here" >&2
    fi
done

# MPI_Allreduce takes memory for what comes in at each call. From 32 MiB on glibc maps that anew each time and
# the kernel hands out its pages one by one, which on a virtual machine may take ten times as long as
# everything else. Peers are shown at their best: what was given back is kept.
keeps_memory=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=8589934592

apart() { if [ -n "$apart" ]; then eval "$apart" '"$@"'; else "$@"; fi; }

play() { # CONTENDER RANKS
    local bind="--bind-to none"
    [ "$2" -gt "$(nproc)" ] || bind="--bind-to core"
    case "$1" in
    tutti) apart "$build/tests/tcp_bench" tutti "$sizes" "$2" ;;
    raw) [ "$2" != 2 ] || apart "$build/tests/tcp_bench" raw "$sizes" "$2" ;;
    ompi)
        # shellcheck disable=SC2086
        [ ! -x "$peers/openmpi" ] || GLIBC_TUNABLES=$keeps_memory apart mpirun.openmpi --allow-run-as-root --oversubscribe $bind -np "$2" \
            --mca btl tcp,self --mca btl_tcp_if_include lo "$peers/openmpi" ompi "$sizes"
        ;;
    mpich)
        [ ! -x "$peers/mpich" ] || [ "$2" -gt "$(nproc)" ] ||
            GLIBC_TUNABLES=$keeps_memory MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self UCX_NET_DEVICES=lo apart mpirun.mpich -np "$2" "$peers/mpich" mpich "$sizes"
        ;;
    esac
}

load_before=$(cut -d' ' -f1-3 /proc/loadavg)
for n in $ranks; do
    for rep in $(seq "$reps"); do
        for contender in tutti ompi mpich raw; do
            [ ! -t 2 ] || printf '\r%s ranks, turn %s of %s: %-10s' "$n" "$rep" "$reps" "$contender" >&2
            play "$contender" "$n" >>"$peers/results"
        done
    done
done
[ ! -t 2 ] || printf '\r%60s\r' '' >&2
[ -z "$keep" ] || cp "$peers/results" "$keep"

echo "all-reduce over TCP on one host, float32 sum, us: best and median of $reps; $(nproc) processors:" \
    "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1); load $load_before before," \
    "$(cut -d' ' -f1-3 /proc/loadavg) after"
awk '
function figures(key,    list, i, j, value) { # sets best and median
    for (i = 1; i <= seen[key]; i++) {
        value = time[key, i]
        for (j = i - 1; j >= 1 && list[j] > value; j--)
            list[j + 1] = list[j]
        list[j + 1] = value
    }
    best = list[1]
    median = list[int((seen[key] + 1) / 2)]
}
function show(us) { return us < 100 ? sprintf("%.1f", us) : sprintf("%.0f", us) }
function pair(key) {
    if (!(key in seen))
        return sprintf("%8s %8s", "-", "-")
    figures(key)
    return sprintf("%8s %8s", show(best), show(median))
}
{
    point = $2 " " $3
    if (!(point in known)) {
        known[point] = 1
        points[++point_count] = point
    }
    key = point " " $1
    time[key, ++seen[key]] = $4
    for (i = 5; i <= 6; i++) {
        if ($i > 0 && (hop_low == 0 || $i < hop_low)) hop_low = $i
        if ($i > hop_high) hop_high = $i
        hop_count += $i > 0
        far_count += $i > 130
    }
    if ($1 == "tutti")
        how[point] = ++chosen[point, $7] > chosen[point, how[point]] + 0 ? $7 : how[point]
}
END {
    printf "%5s %10s | %8s %8s %-18s | %8s %8s | %8s %8s | %8s %8s | %5s %6s | %5s %6s\n", "ranks", "bytes",
        "tutti", "median", "algorithm", "ompi", "median", "mpich", "median", "raw", "median", "times", "median",
        "% raw", "median"
    for (p = 1; p <= point_count; p++) {
        point = points[p]
        split(point, word, " ")
        figures(point " tutti")
        ours = best
        ours_median = median
        theirs = theirs_median = 0
        for (c = 1; c <= 2; c++) {
            key = point " " (c == 1 ? "ompi" : "mpich")
            if (key in seen) {
                figures(key)
                if (theirs == 0 || best < theirs) theirs = best
                if (theirs_median == 0 || median < theirs_median) theirs_median = median
            }
        }
        share = share_median = "-"
        if ((point " raw") in seen) {
            figures(point " raw")
            share = sprintf("%.0f", 100 * best / ours)
            share_median = sprintf("%.0f", 100 * median / ours_median)
        }
        printf "%5d %10d | %8s %8s %-18s | %s | %s | %s | %5s %6s | %5s %6s\n", word[1], word[2], show(ours),
            show(ours_median), how[point], pair(point " ompi"), pair(point " mpich"), pair(point " raw"),
            theirs ? sprintf("%.2f", theirs / ours) : "-",
            theirs ? sprintf("%.2f", theirs_median / ours_median) : "-", share, share_median
        need = word[2] >= 1048576 ? 1.3 : 1
        if (theirs && theirs_median < need * ours_median)
            short = short sprintf("  %s ranks, %s bytes: %.2f times, below %.1f\n", word[1], word[2],
                theirs_median / ours_median, need)
        if (share_median != "-" && word[2] >= 1048576 && share_median + 0 < 80)
            short = short sprintf("  %s bytes: %s %% of raw sockets, below 80\n", word[2], share_median)
    }
    printf "hop: %d to %d ns; above 130 ns in %d of %d looks\n", hop_low, hop_high, far_count, hop_count
    print short == "" ? "by medians: as fast everywhere, 1.3 times from 1 MiB up, 80 % of raw sockets from 1 MiB up" : \
        "by medians, short of the bar (1 time; 1.3 times and 80 % of raw sockets from 1 MiB):\n" short
}' "$peers/results"
