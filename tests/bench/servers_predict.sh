#!/bin/sh
# Simulated against measured throughput of parameter servers on this machine, by tcp: what a worker
# computes at two batch sizes, by how much that varies, and what messages and bytes take, is measured with
# one worker and one server; then global steps a second of two workers with one and two servers,
# asynchronous and synchronous, at another batch, are simulated and measured, in turns.
# servers_predict.sh TUTTI [ROUNDS]: medians over rounds ($UNDER runs before tutti: 'chrt -r 1', of a
# quiet machine nothing). Beside them mean staleness, and gradients by staleness, in %. At the end
# the median error.
set -eu
tutti=${1:?usage: servers_predict.sh TUTTI [ROUNDS]}
rounds=${2:-5}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

train() { # SERVERS WORKERS MODEL BATCH STEPS ...
    servers=$1 workers=$2 model=$3 batch=$4 steps=$5
    shift 5
    # shellcheck disable=SC2086 # $UNDER is several words
    ${UNDER:-} "$tutti" train -B tcp --launch "ps=$servers,worker=$workers" --model "$model" \
        --batch "$batch" --steps "$steps" --format json "$@"
}

# Of lines of steps, from half of them on: the mean step.
mean_step() { # STEPS
    tr -d '{}"' | awk -F'[:,]' -v half="$(($1 / 2))" '
    $1 == "step" {
        for (i = 1; i < NF; i += 2) v[$i] = $(i + 1)
        if (v["step"] > half) { s += v["step_s"]; last = v["step"] }
        else first = v["step"]
    }
    END { print s / (last - first) }'
}

# Likewise: the median step, the median of what is computed, and the spread of the half around it.
medians() { # STEPS
    tr -d '{}"' | awk -F'[:,]' -v half="$(($1 / 2))" '
    function sort(v, n,    i, j, t) {
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    }
    $1 == "step" {
        for (i = 1; i < NF; i += 2) v[$i] = $(i + 1)
        if (v["step"] > half) { s[++n] = v["step_s"]; c[n] = v["compute_s"] }
    }
    END {
        sort(s, n); sort(c, n) # of a normal distribution the half is within 0.674 sigma
        print s[int((n + 1) / 2)], c[int((n + 1) / 2)], log(c[int(3 * n / 4)] / c[int(n / 4) + 1]) / 1.349
    }'
}

middle() { # of numbers, one a line
    sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# What one worker and one server take: files of NAME.step, .compute and .spread, a line a round.
calibrate() { # NAME MODEL BATCH STEPS
    train 1 1 "$2" "$3" "$4" | medians "$4" >"$dir/means"
    read -r step compute spread <"$dir/means"
    echo "$step" >>"$dir/$1.step"
    echo "$compute" >>"$dir/$1.compute"
    echo "$spread" >>"$dir/$1.spread"
    echo "$step $compute" | awk '{ print $1 - $2 }' >>"$dir/$1.rest"
}

of() { # NAME WHAT: the median
    middle <"$dir/$1.$2"
}

simulate() { # SERVERS MODEL BATCH ...: global steps a second, staleness, and its histogram in %
    servers=$1 model=$2 batch=$3
    shift 3
    "$tutti" train "switch:n=2,bw=${rate}B/s,lat=${latency}ps" --device v100 --model "$model" \
        --batch "$batch" --step-time "${compute}ps" --strategy parameter-server \
        --launch "ps=$servers,worker=2" --server-hosts apart --card-rate "${rate}B/s" \
        --spread "$spread" --format json "$@" | tr -d ' \n' |
        sed 's/.*"mean_staleness":\([^,]*\),.*"global_steps_per_s":\([^,]*\),.*"staleness":\[\([^]]*\)\].*/\2 \1 \3/'
}


for model in mlp cifar10-cnn; do
    steps=400 small=32 large=128 batch=64
    [ "$model" = mlp ] || steps=40 small=8 large=32 batch=16
    rm -f "$dir"/*.step "$dir"/*.compute "$dir"/*.rest "$dir"/*.spread
    round=0
    while [ "$round" -lt "$rounds" ]; do
        round=$((round + 1))
        calibrate tiny linear-regression 8 400
        calibrate small "$model" "$small" "$steps"
        calibrate large "$model" "$large" "$steps"
    done
    bytes=$("$tutti" model show "$model" --format json | tr -d ' ' | grep '^"parameters"' | head -n 1 |
        tr -dc '0-9\n' | awk '{ print 4 * $1 }')
    # A pull and a push cross two links each; a byte goes there and back.
    awk -v l="$(of tiny rest)" -v rs="$(of small rest)" -v rl="$(of large rest)" -v b="$bytes" \
        -v cs="$(of small compute)" -v cl="$(of large compute)" -v s="$small" -v g="$large" \
        -v x="$batch" 'BEGIN {
        r = rs < rl ? rs : rl
        if (r < 1.01 * l) l = r / 2
        slope = (cl - cs) / (g - s)
        printf "%.0f %.0f %.0f\n", 2 * b / (r - l), l / 4 * 1e12, (cs + slope * (x - s)) * 1e12
    }' >"$dir/constants"
    read -r rate latency compute <"$dir/constants"
    spread=$(of large spread)
    echo "# $model: computes $(echo "$compute" | awk '{ print $1 / 1e9 }') ms at $batch (spread $spread), a card of $(echo "$rate" | awk '{ print $1 / 1e9 }') GB/s, a link's latency $(echo "$latency" | awk '{ print $1 / 1e6 }') us"
    round=0
    while [ "$round" -lt "$rounds" ]; do
        round=$((round + 1))
        for servers in 1 2; do
            for how in async sync; do
                option=
                [ "$how" = async ] || option='--sync 2'
                # shellcheck disable=SC2086 # two words, or none
                train "$servers" 2 "$model" "$batch" "$steps" $option >"$dir/out"
                step=$(mean_step "$steps" <"$dir/out")
                tail -n 1 "$dir/out" |
                    sed 's/.*"mean_staleness":\([^,]*\),"staleness":\[\([^]]*\)\].*/\1 \2/' >"$dir/stale"
                # shellcheck disable=SC2086
                echo "$model $servers $how $step $(cat "$dir/stale") $(simulate "$servers" "$model" "$batch" $option)" >>"$dir/all"
            done
        done
    done
done
awk '
function median(key, column,    n, i, j, t, v) {
    n = count[key]
    for (i = 1; i <= n; i++) v[i] = value[key, i, column]
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    return v[int((n + 1) / 2)]
}
function percents(list,    n, i, b, sum, text) {
    n = split(list, b, ",")
    for (i = 1; i <= n; i++) sum += b[i]
    for (i = 1; i <= n && i <= 5; i++) text = text sprintf("%s%.0f", i > 1 ? " " : "", 100 * b[i] / sum)
    return text
}
{
    key = $1 " " $2 " " $3
    if (!(key in count)) order[++keys] = key
    n = ++count[key]
    value[key, n, 1] = 1 / $4; value[key, n, 2] = $7; value[key, n, 3] = $5; value[key, n, 4] = $8
    seen[key] = percents($6); said[key] = percents($9)
}
END {
    printf "%-12s %7s %-6s %10s %10s %7s   %s\n", "model", "servers", "steps", "measured/s", "simulated", "error", "staleness: measured, simulated (gradients of 0, 1, ... in %)"
    for (k = 1; k <= keys; k++) {
        split(order[k], w, " ")
        m = median(order[k], 1); p = median(order[k], 2)
        error = 100 * (p / m - 1)
        absolute[k] = error < 0 ? -error : error
        printf "%-12s %7s %-6s %10.4g %10.4g %6.1f%%   %.2f (%s), %.2f (%s)\n", w[1], w[2], w[3], m, p, error, median(order[k], 3), seen[order[k]], median(order[k], 4), said[order[k]]
    }
    for (i = 2; i <= keys; i++)
        for (j = i; j > 1 && absolute[j] < absolute[j - 1]; j--) { t = absolute[j]; absolute[j] = absolute[j - 1]; absolute[j - 1] = t }
    printf "# median error %.1f %% of %d\n", absolute[int((keys + 1) / 2)], keys
}' "$dir/all"
