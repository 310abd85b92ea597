#!/bin/sh
# A machine without a driver, or without NCCL: exit 77, and one line that says what to install.
# Usage: tests/gpu/no_driver.sh TUTTI CUDA_STANDIN
set -u

lacks() { # WHAT COMMAND...
    what=$1
    shift
    said=$("$@" 2>&1 >/dev/null)
    rc=$?
    lines=$(printf '%s\n' "$said" | wc -l)
    if [ $rc -ne 77 ] || [ "$lines" -ne 1 ] || ! printf '%s' "$said" | grep -q "$what"; then
        echo "$*: exit $rc, $lines lines: $said"
        exit 1
    fi
    echo "$said"
}

export TUTTI_CUDA_LIBRARY=/nowhere/libcuda.so TUTTI_NCCL_LIBRARY=/nowhere/libnccl.so
for command in "run -g 2 -a ring" "calibrate -g 2"; do
    # shellcheck disable=SC2086
    lacks "libcuda.so.*Debian's nvidia-driver" "$1" $command -B cuda
    # shellcheck disable=SC2086
    lacks "libcuda.so.*Debian's nvidia-driver" "$1" $command -B nccl
done
lacks "libcuda.so.*Debian's nvidia-driver" "$1" train -B cuda --model mlp
export TUTTI_CUDA_LIBRARY="$2"
lacks "libnccl.so.*NVIDIA's libnccl2" "$1" run -B nccl -g 2 -a ring
