#!/bin/sh
# Predicted against measured steps of training on this machine: what pieces take is measured with
# mirrored, zero1 and fsdp at two batch sizes; then steps of other strategies (and of fsdp) at another
# batch are predicted and measured, in turns. train_predict.sh TUTTI [ROUNDS [BACKEND...]]: medians
# over rounds of the median step, which a busy machine needs ($UNDER runs before tutti: 'chrt -r 1',
# of a quiet one nothing). Parts, measured / predicted in ms: compute, communication exposed, input,
# optimizer. At the end the median error, and pairs of strategies whose steps differ by more than
# 15 % that are in the wrong order.
set -eu
tutti=${1:?usage: train_predict.sh TUTTI [ROUNDS [BACKEND...]]}
rounds=${2:-5}
[ $# -le 2 ] || shift 2
[ $# -gt 0 ] && [ "$1" != "$tutti" ] || set -- threads tcp
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
strategies='multiworkermirrored ddp fsdp zero2'

train() { # BACKEND MODEL STRATEGY BATCH STEPS ...
    together=-g\ 2
    case "$1" in tcp | nccl) together='--launch 2' ;; esac
    backend=$1 model=$2 strategy=$3 batch=$4 steps=$5
    shift 5
    # shellcheck disable=SC2086 # two words
    ${UNDER:-} "$tutti" train -B "$backend" $together --model "$model" --strategy "$strategy" \
        --batch "$batch" --steps "$steps" --format json "$@" | tail -n 1
}

numbers() { # of a last line: step, compute, exposed, input, optimizer; measured and predicted
    sed 's/.*"median_step_s":\([^,]*\),"breakdown_s":{"compute":\([^,]*\),"exposed":\([^,]*\),"input":\([^,]*\),"optimizer":\([^}]*\)},"predicted_step_s":\([^,]*\),"predicted_breakdown_s":{"compute":\([^,]*\),"exposed":\([^,]*\),"input":\([^,]*\),"optimizer".*/\1 \2 \3 \4 \5 \6 \7 \8 \9/'
}

for backend in "$@"; do
    for model in mlp cifar10-cnn; do
        steps=80 small=32 large=128 batch=64
        [ "$model" = mlp ] || steps=12 small=8 large=32 batch=16
        : >"$dir/rows"
        round=0
        while [ "$round" -lt "$rounds" ]; do
            round=$((round + 1))
            for strategy in mirrored zero1 fsdp; do
                for b in "$small" "$large"; do
                    train "$backend" "$model" "$strategy" "$b" "$steps" --calibrate "$dir/$backend" >"$dir/null"
                done
            done
        done
        round=0
        while [ "$round" -lt "$rounds" ]; do
            round=$((round + 1))
            for strategy in $strategies; do
                printf '%s %s %s ' "$backend" "$model" "$strategy" >>"$dir/rows"
                train "$backend" "$model" "$strategy" "$batch" "$steps" --calib "$dir/$backend" |
                    numbers >>"$dir/rows"
            done
        done
        cat "$dir/rows" >>"$dir/all"
    done
done
awk '
function middle(key, column,    n, i, j, t, v) {
    n = count[key]
    for (i = 1; i <= n; i++) v[i] = value[key, i, column]
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    return v[int((n + 1) / 2)]
}
{
    key = $1 " " $2 " " $3
    if (!(key in count)) order[++keys] = key
    count[key]++
    for (c = 1; c <= 9; c++) value[key, count[key], c] = $(c + 3)
}
END {
    printf "%-8s %-12s %-20s %9s %9s %7s   %s\n", "backend", "model", "strategy", "measured", "predicted", "error", "parts: measured / predicted"
    for (k = 1; k <= keys; k++) {
        split(order[k], w, " ")
        m[k] = middle(order[k], 1); p[k] = middle(order[k], 6)
        error[k] = 100 * (p[k] / m[k] - 1)
        absolute[k] = error[k] < 0 ? -error[k] : error[k]
        printf "%-8s %-12s %-20s %9.4g %9.4g %6.1f%%  ", w[1], w[2], w[3], 1e3 * m[k], 1e3 * p[k], error[k]
        for (c = 2; c <= 4; c++) printf " %.3g/%.3g", 1e3 * middle(order[k], c), 1e3 * middle(order[k], c + 5)
        printf " %.3g/%.3g\n", 1e3 * middle(order[k], 5), 1e3 * (p[k] - middle(order[k], 7) - middle(order[k], 8) - middle(order[k], 9))
    }
    for (i = 2; i <= keys; i++)
        for (j = i; j > 1 && absolute[j] < absolute[j - 1]; j--) { t = absolute[j]; absolute[j] = absolute[j - 1]; absolute[j - 1] = t }
    for (i = 1; i <= keys; i++)
        for (j = 1; j <= keys; j++) {
            split(order[i], a, " "); split(order[j], b, " ")
            if (a[1] != b[1] || a[2] != b[2] || m[j] < 1.15 * m[i]) continue
            pairs++
            wrong += p[i] >= p[j]
        }
    printf "# median error %.1f %% of %d; %d of %d pairs in the wrong order\n", absolute[int((keys + 1) / 2)], keys, wrong, pairs
}' "$dir/all"
