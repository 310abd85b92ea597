#!/bin/sh
# What a program or library is linked with: no library of CUDA, NCCL or C++, whichever backends it
# has. Without the backends (`off`): nothing of theirs but the calls that say so, and no name of what
# they would open.
# Usage: tests/gpu/links.sh on|off NM FILE...
set -eu
backends=$1 nm=$2
shift 2
command -v readelf >/dev/null || { echo "skipped: no readelf here (binutils)"; exit 77; }
wrong=0
for file in "$@"; do
    needed=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    [ -n "$needed" ] || { echo "$file: not linked with anything"; exit 1; }
    if printf '%s\n' "$needed" | grep -E 'libstdc|libcuda|libnccl|libnv'; then
        echo "$file: linked with these"
        wrong=1
    fi
    [ "$backends" = off ] || continue
    if "$nm" "$file" | grep -E ' [tT] (cu[A-Z]|nccl[A-Z]|tutti_gpu_(wait|graph|open)|tutti_cuda_(plan|driver|resolve|stages)|tutti_nccl_library)'; then
        echo "$file: these symbols are of a backend that is off"
        wrong=1
    fi
    if strings -a "$file" | grep -E '^(lib(cuda|nccl)[.]so|cu(Init|Mem|Stream|Event|Launch|Ctx)|nccl(Comm|Group[SE])|tutti_play_(float|mixed))'; then
        echo "$file: these strings are of a backend that is off"
        wrong=1
    fi
done
exit $wrong
