#!/usr/bin/env bash
# Configures a preset (in its own folder, see CMakePresets.json) and builds it.
#
#     scripts/build.sh PRESET [cmake options]
#
# Without cmocka the tests are left out, so that users need not have it. ATTN_JOBS: compilers at once.
# ATTN_WERROR=ON: warnings are errors. ATTN_TARGETS: these alone, and what they need.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
shift
options=()
[[ $* == *ATTN_TESTS* ]] || pkg-config --exists cmocka || options+=(-DATTN_TESTS=OFF)
[[ -n ${ATTN_WERROR:-} ]] && options+=(-DATTN_WERROR="$ATTN_WERROR")

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cmake --preset "$preset" "${options[@]}" "$@" >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
# shellcheck disable=SC2086
cmake --build --preset "$preset" -j "${ATTN_JOBS:-$(nproc)}" ${ATTN_TARGETS:+--target $ATTN_TARGETS}
