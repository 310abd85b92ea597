#!/bin/sh
# The kernels of the backend `cuda` on each GPU that they were compiled for: at most 128 registers a
# thread, so that a block of 512 fits, and none of them kept in memory.
# Usage: tests/gpu/registers.sh LOG     (LOG: what nvcc said, with -Xptxas -v)
set -eu
awk '
    / for .sm_/ { gpu = $0; sub(/.*for ./, "", gpu); sub(/[^a-z0-9_].*/, "", gpu); gpus[gpu]++ }
    / bytes spill / && !/ 0 bytes spill stores, 0 bytes spill loads/ { print gpu ": " $0; wrong++ }
    /Used [0-9]+ registers/ {
        sub(/.*Used /, "")
        if ($1 + 0 > most[gpu] + 0) most[gpu] = $1
        if ($1 > 128) { print gpu ": " $0; wrong++ }
        kernels++
    }
    END {
        for (gpu in gpus) print gpu ": " gpus[gpu] " kernels, at most " most[gpu] " registers"
        if (kernels == 0) { print "no kernel in the log"; exit 1 }
        exit wrong > 0
    }' "$1"
