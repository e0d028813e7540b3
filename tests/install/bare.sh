#!/usr/bin/env bash
# The core needs no build system: with each compiler and level here, `cc` over the three source
# folders and a small program gives a program that computes. Ends with a totals line.
set -uo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

for compiler in gcc clang; do
    if ! command -v "$compiler" >/dev/null; then
        echo "$compiler: not installed"
        skipped=$((skipped + 2))
        continue
    fi
    for level in -O0 -O2; do
        if "$compiler" -std=c11 -ffp-contract=off "$level" -I. -Iinclude src/base/*.c src/kernels/*.c \
            src/core/*.c tests/install/small.c -pthread -lm -o "$work/small" && "$work/small"; then
            passed=$((passed + 1))
        else
            echo "FAILED: $compiler $level"
            failed=$((failed + 1))
        fi
    done
done
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]]
