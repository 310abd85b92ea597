#!/bin/sh
# Predicted against measured on this machine: measures it by small schedules, then predicts
# all-reduce by algorithms that it has not measured, at sizes that it has not measured, beside what
# they take, and how far apart the processors lay. local.sh TUTTI [threads|tcp|mpi] [RUNS]: so many calibrations, each with a validation.
# mpi: under $MPIRUN, or mpirun, told to start more processes than it likes to.
set -eu
tutti=${1:?usage: local.sh TUTTI [threads|tcp|mpi] [RUNS]}
backend=${2:-threads}
runs=${3:-3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
under= together=
[ "$backend" != tcp ] || together='--launch 2'
[ "$backend" != mpi ] || under="${MPIRUN:-mpirun} -n 2"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
algorithms=ring,recursive-doubling,binomial,double-binary-tree
i=0
while [ "$i" -lt "$runs" ]; do
    i=$((i + 1))
    echo "== run $i, load $(cut -d ' ' -f 1-3 /proc/loadavg)"
    # shellcheck disable=SC2086 # some words, or none
    $under "$tutti" calibrate -B "$backend" $together -O "$dir/here.local" |
        grep '^# the processors moved\|^# fit'
    # shellcheck disable=SC2086
    $under "$tutti" validate -B "$backend" $together --calib "$dir/here.local" -a "$algorithms" \
        -b 64K -e 256M -f 2 -n 9 | tail -n 2
done
