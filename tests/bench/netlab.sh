#!/bin/bash
# Holds predictions against the backend tcp on shaped networks of tools/netlab: 4 hosts, and 2 hosts of
# 2 ranks, whose uplink both ranks share.
# Usage: tests/bench/netlab.sh [BUILD-DIR [RATES [DELAYS [SIZES [TIMES]]]]]
#   such as: tests/bench/netlab.sh build "100Mb/s 200Mb/s 1Gb/s" "0us 100us 1ms" 64K,256K,1M,4M,16M 7
# Rates and buckets are computed (tools/netlab spec). Measured by messages that ranks pass to each other at
# once, as in all-reduces, to all partners in turn that a rank has between hosts, once for each network: the
# latency of a message (what each more of 1 KiB takes), what is lost once, when all wake up and begin (what
# the first of each partner take beyond that; it is added to each prediction), and what is lost once more when
# buckets run empty and the system waits for tokens (one message to each partner, four times as much in all as
# the bucket holds; added to what does empty them). Once for each rate: the rate of a host's own line (four messages of
# each rank that all but empty its bucket, against four of 1 KiB), and latency and rate inside a host (1 KiB and
# 3 MiB, ten in a row).
# Prints a row a case, with the median and the best of TIMES and the error of the prediction against both,
# then medians and what was ranked wrong. As root it asks for processors before others (chrt -r 1): the
# hosts share them. Exit 77 where namespaces are not permitted.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build} rates=${2:-100Mb/s 200Mb/s 1Gb/s} delays=${3:-0us 100us 1ms}
sizes=${4:-64K,256K,1M,4M,16M} times=${5:-7}
build=$(cd "$build" && pwd) || exit 2
rows=$(mktemp) played=$(mktemp) machine=$(mktemp) unshaped=$(mktemp)
trap 'rm -f "$rows" "$played" "$machine" "$unshaped"' EXIT
first=""
[ "$(id -u)" != 0 ] || first="chrt -r 1"

# HOSTS hosts with 4 ranks, whose network is that of the SPEC: rank - host - line - network.
machine_of() { # HOSTS BW LATENCY-US BURST LINE-MB-PER-S INSIDE-US INSIDE-MB-PER-S
    awk -v hosts="$1" -v bw="$2" -v us="$3" -v burst="$4" -v line="$5" -v inside="$6" -v rate="$7" 'BEGIN {
        each = 4 / hosts
        inside = inside / 2
        outside = us > 2 * inside ? us / 2 - inside : 0
        print "topology " hosts " hosts of tools/netlab\nsource tests/bench/netlab.sh\nnode net switch"
        for (i = 0; i < hosts; i++) printf "node s%d switch host=%d\nnode n%d switch host=%d\n", i, i, i, i
        for (i = 0; i < 4; i++) printf "node dev%d device rank=%d host=%d\n", i, i, int(i / each)
        for (i = 0; i < 4; i++) printf "cable dev%d s%d generic %.3fMB/s %.3fus\n", i, int(i / each), rate, inside
        for (i = 0; i < hosts; i++) {
            printf "cable s%d n%d generic %.3fMB/s 0us\n", i, i, line
            printf "cable n%d net net %s %.3fus burst=%d\n", i, bw, outside, burst
        }
        print hosts == 4 ? "levels 4" : "levels 2 2"
    }'
}

# The median and the best of what was played.
times_of() {
    awk -v a="$1" -v b="$2" '$2 == a && $3 == b { print $4, $5 }' "$played"
}
median_of() { times_of "$@" | cut -d' ' -f1; }
best_of() { times_of "$@" | cut -d' ' -f2; }

# What one more message of 1 KiB takes, and what is lost once: "US US".
warm_of() { # PATTERN MANY FEW
    awk -v many="$2" -v few="$3" -v of_many="$(median_of "$1$2" 1024)" -v of_few="$(median_of "$1$3" 1024)" 'BEGIN {
        more = (many * of_many - few * of_few) / (many - few)
        more = more > 0 ? more : 0
        print more, (of_few > more ? few * (of_few - more) : 0)
    }'
}

declare -A lines insides

# At which rate more bytes come than 1 KiB, in MB/s; by medians, at least 1 us apart.
rate_of() { # ALGORITHM BYTES
    awk -v small="$(median_of "$1" 1024)" -v large="$(median_of "$1" "$2")" -v bytes="$2" \
        'BEGIN { d = large - small; print (bytes - 1024) / (d > 1 ? d : 1) }'
}

inside_of() { echo "$(warm_of swap 10 1 | cut -d' ' -f1) $(rate_of swap10 3145728)"; }

# "BYTES ALGORITHM US" a row.
predict_on() { # MACHINE ALGORITHMS
    for size in ${sizes//,/ }; do
        "$build/tutti" predict "$1" -a "$2" -b "$size" --model fair --format csv | awk -F, '
            NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } { print $at["bytes"], $at["algorithm"], $at["time_us"] }'
    done
}

# One network: plays, reads the latency off, predicts, and adds rows.
network() { # HOSTS RATE DELAY ALGORITHMS
    local spec="switch:n=$1,bw=$2" computed alpha start bw burst each line quarter twice late status swaps probe few
    computed=$(tools/netlab spec "$spec" --delay "$3" --built "$build") || exit $?
    bw=$(sed 's/.*bw=\([^,]*\),.*/\1/' <<<"$computed") burst=${computed##*burst=}
    each=$((4 / $1))
    quarter=$((burst * 7 / 8 / each / 4096)) # of what a rank has of the bucket, less headers, in KiB
    quarter=$((quarter > 2 ? quarter : 2))
    twice=$((burst * 2 / 1024))
    [ "$1" = 4 ] && probe=turn few=2 swaps=() || probe=cross few=1 swaps=(31 "swap10,swap1" 1K 31 swap10 3M)
    $first tools/netlab "$spec" --delay "$3" --built "$build" --quiet --deadline 900 -- \
        "$build/tests/netlab_play" 4 31 "${probe}10,${probe}4,$probe$few" 1K 31 "${probe}4" "${quarter}K" 31 "$probe$few" "${twice}K" \
        "${swaps[@]}" "$times" "$4" "$sizes" >"$played"
    status=$?
    [ "$status" = 0 ] || { echo "tests/bench/netlab.sh: $spec with $3: status $status" >&2; exit "$status"; }
    read -r alpha start <<<"$(warm_of "$probe" 10 "$few")"
    # The line is that of the first delay: with more of it the difference drowns in what latencies vary.
    [ -n "${lines[$1/$2]:-}" ] ||
        lines[$1/$2]=$(rate_of "${probe}4" $((quarter * 1024)) | awk -v each="$each" '{ print each * $1 }')
    [ -n "${insides[$1/$2]:-}" ] ||
        insides[$1/$2]=$([ "$1" = 4 ] && echo "0 10000" || inside_of)
    line=${lines[$1/$2]}
    late=$(awk -v of_few="$(median_of "$probe$few" $((twice * 1024)))" -v bytes=$((few * each * twice * 1024)) -v few="$few" \
        -v burst="$burst" -v bw="${bw%MB/s}" -v alpha="$alpha" -v start="$start" 'BEGIN {
            wait = (bytes - burst) / bw - (few - 1) * alpha # while the others are on their way, tokens come
            late = few * of_few - start - few * alpha - (wait > 0 ? wait : 0)
            print (late > 0 ? late : 0)
        }')
    # shellcheck disable=SC2086 # latency and rate are two words
    machine_of "$1" "$bw" "$alpha" "$burst" "$line" ${insides[$1/$2]} >"$machine"
    # shellcheck disable=SC2086
    machine_of "$1" 100GB/s "$alpha" "$burst" "$line" ${insides[$1/$2]} >"$unshaped"
    paste -d ' ' <(predict_on "$machine" "$4") <(predict_on "$unshaped" "$4") |
        while read -r bytes algorithm shaped _ _ free; do
            echo "$1 $2 $3 $alpha/$start/$late/$line $bytes $algorithm $(awk -v shaped="$shaped" -v free="$free" -v start="$start" \
                -v late="$late" 'BEGIN { print shaped + start + (shaped > 1.01 * free ? late : 0) }') $(times_of "$algorithm" "$bytes")"
        done >>"$rows"
    tail -n 1 "$rows" >&2
}

echo "# $(uname -m), $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg) at the start, $(date -u +%F)"
for rate in $rates; do
    for delay in $delays; do
        network 4 "$rate" "$delay" ring,halving-doubling
        network 2 "$rate" "$delay" ring,halving-doubling,hierarchical
    done
done
awk '
    function size(bytes) { return bytes >= 1048576 ? bytes / 1048576 " MiB" : bytes / 1024 " KiB" }
    function median(list, count,   i, j, t) {
        for (i = 2; i <= count; i++) { t = list[i]; for (j = i - 1; j > 0 && list[j] > t; j--) list[j + 1] = list[j]; list[j + 1] = t }
        return list[int((count + 1) / 2)]
    }
    function abs(x) { return x < 0 ? -x : x }
    NR == 1 { print "| hosts | rate | delay | latency, once, late us, line MB/s | size | algorithm | median us | best us | predicted us | error | of best |\n|---|---|---|---|---|---|---|---|---|---|---|" }
    {
        split($4, seen_here, "/"); alpha = sprintf("%.1f, %.0f, %.0f, %.0f", seen_here[1], seen_here[2], seen_here[3], seen_here[4])
        error = 100 * ($7 - $8) / $8; of_best = 100 * ($7 - $9) / $9
        printf "| %d | %s | %s | %s | %s | %s | %.1f | %.1f | %.1f | %+.1f %% | %+.1f %% |\n", $1, $2, $3, alpha, size($5), $6, $8, $9, $7, error, of_best
        all[NR] = abs(error); best[NR] = abs(of_best); n[$6]++; by[$6, n[$6]] = abs(error); by_best[$6, n[$6]] = abs(of_best)
        r[$2]++; rate[$2, r[$2]] = abs(error)
        key = $1 " " $2 " " $3 " " $5
        for (i = 1; i <= seen[key]; i++) {
            m = measured[key, i] / $8; p = predicted[key, i] / $7
            if (m > 1.1 || m < 1 / 1.1) {
                ranked++
                if ((m > 1) != (p > 1)) { wrong++; lines = lines sprintf("# ranked wrong: %s: %s %.1f, %s %.1f us, predicted %.1f and %.1f\n", key, name[key, i], measured[key, i], $6, $8, predicted[key, i], $7) }
            }
            m = fastest[key, i] / $9
            if (m > 1.1 || m < 1 / 1.1) { best_ranked++; best_wrong += (m > 1) != (p > 1) }
        }
        i = ++seen[key]; measured[key, i] = $8; predicted[key, i] = $7; name[key, i] = $6; fastest[key, i] = $9
    }
    END {
        printf "# |error| of the median, %d cases: median %.1f %%", NR, median(all, NR)
        printf ", worst %.1f %%; against the best: median %.1f %%, worst %.1f %%\n", all[NR], median(best, NR), best[NR]
        for (a in n) {
            for (i = 1; i <= n[a]; i++) { x[i] = by[a, i]; y[i] = by_best[a, i] }
            printf "# %s: median %.1f %%, against the best %.1f %%\n", a, median(x, n[a]), median(y, n[a])
        }
        for (a in r) { for (i = 1; i <= r[a]; i++) x[i] = rate[a, i]; printf "# %s: median %.1f %%\n", a, median(x, r[a]) }
        printf "# algorithms that differ by more than 10 %%: %d pairs by medians, %d ranked wrong; %d by the best, %d wrong\n%s", ranked, wrong, best_ranked, best_wrong, lines
    }' "$rows"
echo "# load $(cut -d' ' -f1-3 /proc/loadavg) at the end"
