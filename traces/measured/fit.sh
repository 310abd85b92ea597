#!/bin/sh
# Fits traces/measured/fitted.calib anew from the tables beside it, and prints how well it holds:
# minutes on two cores, most of them for a hundred refits without a site or a platform. TUTTI names
# the command (standard: build/tutti).
set -e
here=$(cd "$(dirname "$0")" && pwd)
exec "${TUTTI:-$here/../../build/tutti}" calibrate "$here" \
    --filter 'quality=good,collective=allreduce,nodes=..4,timing!=torch|kernel|graph' \
    --iterations 10 --title 'Tutti 2026-11-22, all-reduce of up to 4 hosts' \
    -o "$here/fitted.calib"
