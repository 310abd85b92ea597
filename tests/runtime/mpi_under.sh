#!/bin/sh
# Runs a test program as a job of MPI: tests/runtime/mpi_under.sh LAUNCHER PROCESSES PROGRAM [ARGUMENT...]
# Exits 77, and says so, where the launcher is not there.
set -eu
launcher=$1 processes=$2
shift 2
if [ -z "$launcher" ] || [ ! -x "$launcher" ]; then
    echo "skipped: no mpirun beside the MPI of this build (Debian: openmpi-bin, or mpich)"
    exit 77
fi
# Open MPI starts no more processes than processors, and none for root, unless told to; and then
# they yield, as MPICH's do not. The library keeps memory of its own to the end, which is no leak of
# ours, and its threads are not instrumented.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export ASAN_OPTIONS="detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export TSAN_OPTIONS="ignore_noninstrumented_modules=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
exec timeout -k 5 580 "$launcher" -n "$processes" "$@"
