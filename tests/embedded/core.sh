#!/bin/sh
# Builds the profile core for another processor and holds its predictions to this one's, byte for byte.
# Usage: tests/embedded/core.sh armhf|wasm [FOLDER]     (FOLDER: for what is built, build-embedded)
# Prints one line; 77: the tools for it are not here.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
target=$1
folder=${2:-build-embedded}

skip() { echo "$target: skipped, $1"; exit 77; }

case $target in
armhf)
    tools="arm-linux-gnueabihf-gcc qemu-arm"
    packages="gcc-arm-linux-gnueabihf libc6-dev-armhf-cross qemu-user"
    run="qemu-arm -L /usr/arm-linux-gnueabihf" program=answers ;;
wasm)
    tools="clang wasm-ld llvm-ar llvm-ranlib node"
    packages="clang lld llvm wasi-libc libclang-rt-dev-wasm32 nodejs"
    run="node --no-warnings $top/tests/embedded/wasi.mjs" program=answers.wasm ;;
*)
    echo "usage: tests/embedded/core.sh armhf|wasm [FOLDER]" >&2
    exit 2 ;;
esac
for tool in $tools; do
    command -v "$tool" >/dev/null || skip "no $tool here ($packages)"
done

build() { # NAME [OPTION...]
    name=$1
    shift
    generator=
    ! command -v ninja >/dev/null || generator=-GNinja
    mkdir -p "$folder"
    if ! { cmake -S "$top" -B "$folder/$name" $generator -DTUTTI_PROFILE=core "$@" &&
           cmake --build "$folder/$name" -j "$(nproc)"; } >"$folder/$name.log" 2>&1; then
        cat "$folder/$name.log"
        echo "$target: does not build"
        exit 1
    fi
}

if [ "$target" = wasm ]; then # its libc, and what the compiler needs beside
    echo 'int main(void) { return 0; }' >"${TMPDIR:-/tmp}/tutti-$$.c"
    linked=yes
    clang --target=wasm32-wasi -o "${TMPDIR:-/tmp}/tutti-$$.wasm" "${TMPDIR:-/tmp}/tutti-$$.c" \
        2>/dev/null || linked=no
    rm -f "${TMPDIR:-/tmp}/tutti-$$.c" "${TMPDIR:-/tmp}/tutti-$$.wasm"
    [ $linked = yes ] || skip "clang makes no program of wasm32-wasi here ($packages)"
fi
# What differs there are sizes, signs of char and the C library, whatever the compiler optimises: that
# takes two fifths of the time to build, and is left to --full of tools/check. wasm's stack of 64 KiB
# does not hold what is not optimised.
optimize=-Os
[ "$target" = wasm ] || [ -n "${TUTTI_TEST_FULL:-}" ] || optimize=-O0
build native
build "$target" "-DTUTTI_WERROR=ON" "-DTUTTI_CORE_OPTIMIZE=$optimize" "-DCMAKE_TOOLCHAIN_FILE=$top/tests/embedded/$target.cmake"
"$folder/native/answers" >"$folder/native.txt"
# shellcheck disable=SC2086
$run "$folder/$target/$program" >"$folder/$target.txt"
if ! diff "$folder/native.txt" "$folder/$target.txt"; then
    echo "$target: other digits than here"
    exit 1
fi
echo "$target: $(wc -l <"$folder/$target.txt") predictions the same to the byte"
