#!/bin/sh
# Installs a build into a folder, moves that elsewhere, and builds and runs programs that use it, found
# by pkg-config and by find_package, shared and static, in C and in C++: all print the same as the
# command. Usage: tests/install/consume.sh BUILD [C-COMPILER [C++-COMPILER]]; 77: skipped
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
cc=${2:-cc}
cxx=${3-c++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fails=0
checks=0

die() {
    echo "consume.sh: $*" >&2
    exit 1
}

quietly() { # what it says is shown only if it fails
    "$@" >"$work/log" 2>&1 || {
        tail -n 40 "$work/log" >&2
        die "failed: $*"
    }
}

quietly cmake --build "$build" --target product
quietly cmake --install "$build" --prefix "$work/first"
mkdir "$work/away"
mv "$work/first" "$work/away/tutti" # nothing in it may know where it was installed
prefix=$work/away/tutti
pc=$(dirname "$(find "$prefix" -name tutti.pc)")
lib=$(dirname "$pc")
[ -z "$(find "$prefix" -name '*tutti[-_]fit*')" ] || die "the laboratory is installed, too"
command -v "$cxx" >/dev/null 2>&1 || cxx=""
[ -n "$cxx" ] || echo "skipped: C++ (no compiler of it here)"

# What the command says first of a machine and a size: algorithm, protocol, bytes, picoseconds.
machines="dgx-h100:nodes=2 tpu-v4:4x4x4"
say() {
    "$prefix/bin/tutti" predict "$1" -b 16M -e 16M --format csv |
        awk -F, '/^#/ { next }
            { row++ }
            row == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
            row == 2 { printf "%s %s %s %.0f\n", $at["algorithm"], $at["protocol"], $at["bytes"],
                  $at["time_us"] * 1e6 }'
}
expected=$(for machine in $machines; do say "$machine"; done)
[ "$(echo "$expected" | wc -l)" = 2 ] || die "the installed command says '$expected'"

check() { # NAME PROGRAM
    seen=$(for machine in $machines; do LD_LIBRARY_PATH="$lib" "$2" "$machine"; done) ||
        die "$1: exit $?"
    checks=$((checks + 1))
    [ "$seen" = "$expected" ] && return
    echo "$1: '$seen', but the command says '$expected'" >&2
    fails=$((fails + 1))
}

# The doors that the programs include are those of the prefix: nothing of the source is on the way.
cp "$here/consumer.c" "$here/consumer.cc" "$here/CMakeLists.txt" "$work/"
cd "$work"
if command -v pkg-config >/dev/null 2>&1; then
    PKG_CONFIG_PATH=$pc
    export PKG_CONFIG_PATH
    cflags=$(pkg-config --cflags tutti)
    shared=$(pkg-config --libs tutti)
    static=$(pkg-config --static --libs tutti | sed 's/-ltutti\b/-l:libtutti.a/')
    for kind in shared static; do
        eval "libs=\$$kind"
        # shellcheck disable=SC2086
        quietly "$cc" -std=c11 -Wall -Wextra -Werror consumer.c -o "pc_c_$kind" $cflags $libs
        check "pkg-config, C, $kind" "./pc_c_$kind"
        [ -n "$cxx" ] || continue
        # shellcheck disable=SC2086
        quietly "$cxx" -std=c++11 -Wall -Wextra -pedantic -Werror consumer.cc -o "pc_cxx_$kind" \
            $cflags $libs
        check "pkg-config, C++, $kind" "./pc_cxx_$kind"
    done
else
    echo "skipped: pkg-config (there is none here)"
fi

quietly env CC="$cc" CXX="$cxx" cmake -S . -B project -DCMAKE_PREFIX_PATH="$prefix" \
    -DWITH_CXX=${cxx:+ON}
quietly cmake --build project
for program in project/c_* project/cxx_*; do
    [ -x "$program" ] && check "find_package, ${program#project/}" "$program"
done
[ "$fails" = 0 ] || exit 1
echo "$checks programs say: $expected"
