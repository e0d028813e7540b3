#!/usr/bin/env bash
# Runs the tests of a build folder under ctest and adds up what they report.
#
#     scripts/test.sh BUILD [ctest options, such as -R name]
#
# ATTN_TEST_ARGS       arguments for every test program, such as "--set avx2"
# ATTN_TEST_CASES      arguments for those that draw random cases, such as "--cases 2000"
# ATTN_TEST_WRAPPER    command to run every test program under, such as valgrind
# ATTN_JOBS            programs at once (default: one a CPU)
#
# Ends with `N passed, N failed, N skipped`: the sum of the lines of that form that the programs end
# with. A program without one counts as one test; so does a failure that its own line does not show.
set -uo pipefail

build=$1
shift
log=$build/Testing/Temporary/LastTest.log
rm -f "$log"
# Indented, so that only the sum below stands at the start of a line.
ctest --test-dir "$build" -j "${ATTN_JOBS:-$(nproc)}" --output-on-failure --no-tests=error "$@" \
    </dev/null 2>&1 | sed -u 's/^/  /'
status=${PIPESTATUS[0]}
[[ -f $log ]] || exit 1

awk -v status="$status" '
    /^[0-9]+\/[0-9]+ Testing: / { name = $3; line = "" }
    match($0, /[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped/) { line = substr($0, RSTART, RLENGTH) }
    /^Test (Passed|Failed)\.$/ { good = $2 == "Passed." }
    /^"[^"]*" end time: / {
        p = f = s = 0
        if (line != "") {
            split(line, part, " ")
            p = part[1]; f = part[3]; s = part[5]
        } else if (good)
            p = 1
        if (!good && f == 0)
            f = 1
        if (f > 0)
            print "FAILED " name
        passed += p; failed += f; skipped += s; good = 0
    }
    END {
        if (status != 0 && failed == 0)
            failed = 1
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    }' "$log"
exit $status
