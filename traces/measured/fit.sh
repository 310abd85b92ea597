#!/bin/sh
# Fits traces/measured/fitted.calib anew from the tables beside it, and prints how well it holds:
# some 15 minutes on two cores, most of it for a hundred refits without a site or a platform.
# All-reduce tells what links and launches cost; that given, all-to-all and send/receive tell what is
# of messages alone. The other collectives only judge. TUTTI names the command (standard: build/tutti).
set -e
here=$(cd "$(dirname "$0")" && pwd)
tutti=${TUTTI:-$here/../../build/tutti}
runs='quality=good,nodes=..4,timing!=torch|kernel|graph,basis!=assumed'
"$tutti" calibrate "$here" --filter "$runs,collective=allreduce" \
    --judge "$runs,collective=broadcast|reduce|allgather|reducescatter" \
    --iterations 14 -o "$here/fitted.calib"
"$tutti" calibrate "$here" --given "$here/fitted.calib" \
    --filter "$runs,collective=alltoall|sendrecv" \
    --iterations 14 --title 'fitted to public runs of NCCL, 2026-11-26' -o "$here/fitted.calib"
