#!/bin/sh
# Fits traces/measured/fitted.calib anew from the tables beside it, and prints how well it holds:
# half an hour on two cores, most of it for ten fits without a fifth of all sites, or platforms
# (LEAVE_OUT=one: without each alone, which takes longer still). All-reduce tells most of what links
# and launches cost, the other collectives of rings a little; that given, all-to-all and send/receive
# tell what is of messages alone. TUTTI_FIT names the program (standard: build/tutti-fit).
set -e
here=$(cd "$(dirname "$0")" && pwd)
fit=${TUTTI_FIT:-$here/../../build/tutti-fit}
runs='quality=good,nodes=..4,timing!=torch|kernel|graph,basis!=assumed'
"$fit" calibrate "$here" --filter "$runs,collective=allreduce" \
    --aside "$runs,collective=broadcast|reduce|allgather|reducescatter" \
    --leave-out "${LEAVE_OUT:-fifth}" --iterations 14 -O "$here/fitted.calib"
"$fit" calibrate "$here" --given "$here/fitted.calib" \
    --filter "$runs,collective=alltoall|sendrecv" --leave-out "${LEAVE_OUT:-fifth}" \
    --iterations 14 --title 'fitted to public runs of NCCL, 2026-11-26' -O "$here/fitted.calib"
