#!/usr/bin/env bash
# Runs the checks, in named stages.
#
#     scripts/check.sh                  all that CI runs
#     scripts/check.sh asan lint        these
#     scripts/check.sh ^aarch64         all that CI runs but this
#     scripts/check.sh full             the long ones
#     scripts/check.sh list             their names, and what they do
#
# One line a stage, with its time; its log is build-check/STAGE.log, and the end of it is shown if the
# stage fails. The last line is `N passed, N failed, N skipped`: stages, and the tests they ran.
set -uo pipefail
cd "$(dirname "$0")/.."

logs=build-check
export ATTN_JOBS=${ATTN_JOBS:-$(nproc)}
export ATTN_WERROR=ON

# name      set    seconds allowed   what it shows
stages='
deps        ci     900    packages for everything below are there
build       ci     300    release build without a warning
test        ci     600    fast tier: every test program and command line script
lint        ci     120    layers, forbidden calls, headers alone, exported symbols, links
format      ci     60     clang-format changes nothing
bare        ci     300    cc alone builds the core: gcc -O0 and -O2, clang -O0
install     ci     180    examples, C and C++, build and run against the installed package
cli         ci     180    command line scripts again, from another folder, TMPDIR with a space
demo        ci     180    make demo, make words
viz_browser ci     900    pages and SVG in headless Chromium; fetches Chromium if it is missing
clang       ci     600    what has arithmetic, as clang compiles it
sets        ci     600    fast tier capped to each kernel set
asan        ci     900    fast tier under AddressSanitizer and UndefinedBehaviorSanitizer
tsan        ci     600    tests with threads under ThreadSanitizer
fuzz_smoke  ci     300    20,000 runs of every fuzz target
aarch64     ci     600    cross build; kernels and some more tests under qemu
valgrind    full   14400  fast tier under memcheck: no error, no leak
table3      full   1800    a step of training of every row of Table 3, at full size: 4 GB
kills       full   600     20 training runs killed at random times end with the bits of one left alone
mutants     full   14400  tests notice every mutant of the code
fuzz        full   14400  1,000,000 runs of every fuzz target
text        full   3600    tokenizers and vocabularies against Hugging Face, BLEU and chrF against sacreBLEU
million     full   43200  1,000,000 random forward cases
'

# --- Stages: each runs in its own process with its output in a log ---------------------------------

# Programs of minutes, whose cases the random ones of the same kind cover: once, in stage test.
long='^test_backward_(bits|pairs)$'
# Programs that choose no kernel set: they do the same whatever stage `sets` asks of the others.
setless='^test_(generate|io|ref|score|text|viz|train_(checkpoint|table3)'
setless+='|nn_(attend|config|golden|layers|pass|queries|save|tokens))'

stage_deps()
{
    scripts/deps.sh build test words check
}

stage_build()
{
    scripts/build.sh release
}

stage_test()
{
    stage_build && scripts/test.sh build
}

stage_lint()
{
    stage_build && scripts/lint.sh build
}

stage_format()
{
    git ls-files '*.c' '*.h' '*.cpp' | xargs clang-format --dry-run -Werror
}

stage_bare()
{
    tests/install/bare.sh
}

stage_install()
{
    stage_build && tests/install/run.sh build
}

stage_cli()
{
    stage_build || return
    export TMPDIR="$PWD/$logs/a folder"
    rm -rf "$TMPDIR" && mkdir -p "$TMPDIR" || return
    (root=$PWD && cd / && "$root/tests/cli/run" "$root/build/attn")
}

stage_demo()
{
    make --no-print-directory demo && make --no-print-directory words
}

stage_viz_browser()
{
    scripts/deps.sh browser && stage_build && python3 tests/browser/viz.py build
}

# Compilers differ in what they make of arithmetic: programs without it, and those of memory and of
# hosts, are built, and run elsewhere.
stage_clang()
{
    local out='test_(bits_host|guard|io|ref|text|viz|nn_(config|save)|train_checkpoint)'
    scripts/build.sh clang &&
        ATTN_TEST_CASES="--cases 2000" \
            scripts/test.sh build-clang -E "^(cli|browser)_|^$out|$long"
}

# The widest set that this machine has is what every other stage runs.
stage_sets()
{
    local set
    stage_build || return
    for set in scalar avx2; do
        [[ $set == "$(widest_set)" ]] && continue
        echo "=== $set"
        ATTN_TEST_ARGS="--set $set" ATTN_TEST_CASES="--cases 2000" \
            scripts/test.sh build -E "^(cli|browser)_|$setless|$long" || return
    done
}

stage_asan()
{
    # No use-after-return check: gcc 12 aligns its fake stack frames to less than the 64 bytes that
    # AVX-512 spills need. Tests ask for impossible sizes on purpose.
    export ASAN_OPTIONS=strict_string_checks=1:allocator_may_return_null=1
    export UBSAN_OPTIONS=print_stacktrace=1
    # fontconfig loses sight of a few hundred bytes, once a program, whatever is drawn.
    echo leak:libfontconfig >$logs/lsan.supp
    export LSAN_OPTIONS=suppressions=$PWD/$logs/lsan.supp:print_suppressions=0
    # The programs that repeat everything for each set are long under ASan: the widest set stands for
    # all in most of them, and every set is run by those that check kernels one by one.
    local every='test_(differential|kernels|reviewed)'
    # Left out: tests of the reference, what looks for wild reads by other means, and comparisons and
    # sweeps whose calls others make too.
    local out='test_(ref|ref_backward|bits|bits_host|guard|laws|pairs|stats)'
    scripts/build.sh asan || return
    ATTN_TEST_ARGS="--set $(widest_set)" ATTN_TEST_CASES="--cases 1000" \
        scripts/test.sh build-asan -E "^cli_|^($every|$out)$|$long" &&
        ATTN_TEST_CASES="--cases 300" scripts/test.sh build-asan -R "^($every|cli_.*)$"
}

# A pattern of exactly these names.
any_of()
{
    tr -s ' \n' '|' <<<"$*" | sed 's/^/^(/; s/|*$/)$/'
}

# The kernel set that a context takes by itself on this machine.
widest_set()
{
    grep -q avx512dq /proc/cpuinfo && echo avx512 && return
    grep -q avx2 /proc/cpuinfo && echo avx2 || echo scalar
}

# ThreadSanitizer needs the memory layout that address randomisation may disturb.
stage_tsan()
{
    local fixed=()
    setarch -R true 2>/dev/null && fixed=(setarch -R)
    export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1
    # Whole programs, and those of which only the tests named so have threads.
    local whole="test_cache test_ctx test_contract test_differential test_backward_differential test_io"
    local threads="test_bits test_nn_pass test_nn_layers test_nn_tokens test_nn_attend
        test_gemm test_generate_search test_text test_train_trainer"
    ATTN_TARGETS="$whole $threads" scripts/build.sh tsan &&
        ATTN_TEST_ARGS="--set $(widest_set)" ATTN_TEST_CASES="--cases 500" \
            "${fixed[@]}" scripts/test.sh build-tsan -R "$(any_of $whole)" &&
        ATTN_TEST_ARGS="--set $(widest_set) threads" \
            "${fixed[@]}" scripts/test.sh build-tsan -R "$(any_of $threads)"
}

# Runs a fuzz target $2 times, from its seeds in tests/fuzz/corpus/NAME. What it says goes to a log.
fuzz_one()
{
    local name=${1##*/fuzz_}
    local corpus=build-fuzz/corpus/$name log=build-fuzz/$name
    mkdir -p "$corpus" && rm -f "$log.good"
    [[ -d tests/fuzz/corpus/$name ]] && cp -n tests/fuzz/corpus/"$name"/* "$corpus"/
    "$1" -runs="$2" -timeout=20 -rss_limit_mb=4096 -artifact_prefix=build-fuzz/ \
        -print_final_stats=1 "$corpus" </dev/null >"$log.log" 2>&1 && touch "$log.good"
}

# Runs every fuzz target $1 times, as many targets at once as there are CPUs.
fuzz()
{
    local target name passed=0 bad=()
    scripts/build.sh fuzz || return
    for target in build-fuzz/tests/fuzz_*; do
        while [[ $(jobs -pr | wc -l) -ge $ATTN_JOBS ]]; do
            wait -n
        done
        fuzz_one "$target" "$1" &
    done
    wait
    for target in build-fuzz/tests/fuzz_*; do
        name=${target##*/fuzz_}
        if [[ -e build-fuzz/$name.good ]]; then
            echo "$name: $(grep -a '^Done ' "build-fuzz/$name.log")"
            passed=$((passed + 1))
        else
            bad+=("$name")
        fi
    done
    for name in "${bad[@]}"; do
        echo "FAILED: $name"
        tail -n 35 "build-fuzz/$name.log"
    done
    echo "$passed passed, ${#bad[@]} failed, 0 skipped"
    [[ $passed -gt 0 && ${#bad[@]} -eq 0 ]]
}

stage_fuzz_smoke()
{
    fuzz 20000
}

stage_fuzz()
{
    fuzz 1000000
}

# cmocka has no cross package that can stand beside the native one without changing the system's
# architectures, so the package is unpacked into the build folder.
aarch64_root()
{
    local root=$PWD/build-aarch64/root apt=$PWD/build-aarch64/apt options package
    [[ -e $root/usr/include/cmocka.h ]] && return
    mkdir -p "$root" "$apt"/lists/partial "$apt"/archives/partial
    options=(-q -o APT::Architectures::=arm64 -o Dir::State="$apt" -o Dir::Cache="$apt"
             -o Dir::State::status=/var/lib/dpkg/status -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update || return
    (cd "$apt" && apt-get "${options[@]}" download libcmocka0:arm64 libcmocka-dev:arm64) || return
    for package in "$apt"/*.deb; do
        dpkg -x "$package" "$root" || return
    done
    rm -rf "$apt"
}

stage_aarch64()
{
    local tests="test_kernels test_kernels_train test_nn_kernels test_differential test_contract
        test_contract_options"
    aarch64_root &&
        ATTN_TARGETS="attn_shared $tests" scripts/build.sh aarch64 -DATTN_TESTS=ON \
            -DATTN_AARCH64_ROOT="$PWD/build-aarch64/root" &&
        ATTN_TEST_CASES="--cases 200" scripts/test.sh build-aarch64 -R "$(any_of $tests)"
}

# Valgrind hides AVX-512, so this also runs what a machine without it would choose; the other sets
# where kernels are checked one by one. Left out: tests of the reference, which run none of the
# library, and programs of many thousand calls that others make too, one by one.
stage_valgrind()
{
    scripts/deps.sh full && scripts/build.sh memcheck -DATTN_TEST_TIMEOUT=7200 || return
    export ATTN_TEST_WRAPPER="valgrind -q --max-threads=2000 --error-exitcode=99 --leak-check=full \
        --show-leak-kinds=all --errors-for-leak-kinds=all --suppressions=$PWD/tests/valgrind.supp"
    ATTN_TEST_ARGS="--set avx2" ATTN_TEST_CASES="--cases 200" \
        scripts/test.sh build-memcheck -E "^(cli|browser)_|^test_(ref|args_fuzz|bits)|$long" &&
        ATTN_TEST_ARGS="--set scalar" ATTN_TEST_CASES="--cases 100" \
            scripts/test.sh build-memcheck -R '^test_(kernels|.*differential)$'
}

stage_mutants()
{
    stage_build && tests/mutants.sh && tests/train_mutants.sh build
}

stage_text()
{
    stage_build && tests/tokenizers/compare.sh build --cases 300 &&
        tests/scores/sacrebleu.sh build --cases 5000
}

stage_table3()
{
    stage_build && build/tests/test_train_table3 --divide 1
}

stage_kills()
{
    stage_build && tests/train_kills.sh build/attn 20 "${ATTN_SEED:-$RANDOM}"
}

stage_million()
{
    stage_build && build/tests/test_differential --cases 1000000
}

# --- Driver ----------------------------------------------------------------------------------------

# Names of the stages of set $1.
names()
{
    awk -v set="$1" '$2 == set { print $1 }' <<<"$stages"
}

known()
{
    awk -v name="$1" '$1 == name { found = 1 } END { exit !found }' <<<"$stages" || {
        echo "check.sh: no stage '$1'; scripts/check.sh list shows them" >&2
        exit 2
    }
}

# Adds the totals lines of log $1 to passed, failed and skipped. Those of single programs are indented.
add_totals()
{
    local line
    line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$1" |
        awk '{ p += $1; f += $3; s += $5 } END { print p + 0, f + 0, s + 0 }')
    read -r stage_passed stage_failed stage_skipped <<<"$line"
    passed=$((passed + stage_passed))
    failed=$((failed + stage_failed))
    skipped=$((skipped + stage_skipped))
}

run_stage()
{
    local name=$1 log=$logs/$1.log limit start verdict=passed status
    limit=$(awk -v name="$name" '$1 == name { print $3 }' <<<"$stages")
    start=$SECONDS
    timeout --kill-after=10 "$limit" bash scripts/check.sh --stage "$name" >"$log" 2>&1 </dev/null
    status=$?
    add_totals "$log"
    if [[ $status -eq 0 && $stage_failed -eq 0 ]]; then
        passed=$((passed + 1))
    else
        verdict=FAILED
        [[ $status -eq 124 ]] && verdict="FAILED (over $limit s)"
        failed=$((failed + 1))
        failures+=("$name")
        echo "--- end of $log"
        tail -n 40 "$log"
        echo "---"
    fi
    printf '%-11s %-7s %4d s   %d passed, %d failed, %d skipped within\n' "$name" "$verdict" \
        $((SECONDS - start)) "$stage_passed" "$stage_failed" "$stage_skipped"
}

if [[ ${1:-} == --stage ]]; then
    "stage_$2"
    exit
fi
if [[ ${1:-} == list ]]; then
    awk 'NF { printf "%-11s %-5s", $1, $2; for (i = 4; i <= NF; i++) printf " %s", $i; print "" }' \
        <<<"$stages"
    exit
fi

chosen=()
left_out=" "
for argument in "$@"; do
    if [[ $argument == full ]]; then
        chosen+=($(names full))
    elif [[ $argument == ^* ]]; then
        known "${argument#^}"
        left_out+="${argument#^} "
    else
        known "$argument"
        chosen+=("$argument")
    fi
done
[[ ${#chosen[@]} -eq 0 ]] && chosen=($(names ci))

mkdir -p "$logs"
passed=0 failed=0 skipped=0 failures=()
for name in "${chosen[@]}"; do
    [[ $left_out == *" $name "* ]] || run_stage "$name"
done
echo "In all $((SECONDS / 60)) min $((SECONDS % 60)) s. ${failures[*]:+Failed: ${failures[*]}}"
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]]
