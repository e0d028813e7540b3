#!/usr/bin/env bash
# The core needs no build system: with the compilers and levels below, `cc` over the three source
# folders and a small program gives a program that computes. Ends with a totals line.
set -uo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

# Compilers' own time is most of it, so as many builds run at once as there are CPUs.
build()
{
    "$1" -std=c11 -ffp-contract=off "$2" -I. -Iinclude src/base/*.c src/kernels/*.c src/core/*.c \
        tests/install/small.c -pthread -lm -o "$work/$1$2" && "$work/$1$2" && touch "$work/$1$2.good"
}

# gcc -O0 refuses intrinsics whose constant operand comes through a function's argument.
builds=("gcc -O2" "clang -O0" "gcc -O0")
for each in "${builds[@]}"; do
    read -r compiler level <<<"$each"
    while [[ $(jobs -pr | wc -l) -ge ${ATTN_JOBS:-$(nproc)} ]]; do
        wait -n
    done
    command -v "$compiler" >/dev/null && build "$compiler" "$level" &
done
wait

for each in "${builds[@]}"; do
    read -r compiler level <<<"$each"
    if ! command -v "$compiler" >/dev/null; then
        echo "$compiler: not installed"
        skipped=$((skipped + 1))
    elif [[ -e $work/$compiler$level.good ]]; then
        passed=$((passed + 1))
    else
        echo "FAILED: $each"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]]
