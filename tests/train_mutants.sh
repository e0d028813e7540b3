#!/usr/bin/env bash
# Breaks src/train on purpose, one small change at a time in a copy, and sees whether its tests
# notice; the manner is that of tests/mutants.sh.
#
#     tests/train_mutants.sh BUILD [filter]     a release build, whose other libraries are used
#
# A mutant is `name | file | test | perl substitution`. Ends with `N passed, N failed, N skipped`.
set -uo pipefail
build=$(realpath -- "${1:?which build?}")
filter=${2:-}
cd "$(dirname "$0")/.." || exit 1
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c11 -O1 -ffp-contract=off -w -I.)

mutants='
others smoothed as mix   | loss       | loss       | s/e \/ \(v - 1\);/e \/ v;/
target counted as right  | loss       | loss       | s/loss->right \+= r->right;/loss->right += 1;/
beta2 one step late      | optimiser  | adam       | s/pow\(a->beta2, t\)/pow(a->beta2, t + 1)/
no clipping              | optimiser  | adam       | s/size > a->max_norm/0/
spans decay              | optimiser  | adam       | s/step.keep = 1;//
checksum not compared    | checkpoint | checkpoint | s/strcmp\(found, value\) == 0/1/
step written over        | checkpoint | checkpoint | s/list\[i\].again \+ 1;/list[i].again;/
mean of means            | trainer    | trainer    | s/goals > 0 \? 1 \/ \(double\)goals : 0/1 \/ (double)t->part.target_tokens/
dropout by part          | trainer    | trainer    | s/t->part.first = at - batch.from;/t->part.first = 0;/
average not kept         | trainer    | trainer    | s/1 - o->average/1/
position forgotten       | state      | trainer    | s/t->position = \(int64_t\)read\[POSITION\];//
corpus not compared      | state      | trainer    | s/i < MUST_AGREE &&/i > 0 \&\& i < MUST_AGREE \&\&/
each epoch in one order  | batches    | trainer    | s/attn__mix\(b->seed, \(uint64_t\)epoch\)/attn__mix(b->seed, 0)/
'

libraries=("$build"/libattn_{test_support,nn,io,text,viz}.a "$build/libattn.a")
# shellcheck disable=SC2207
libraries+=($(pkg-config --libs jansson libzip zlib cairo pangocairo libpng libutf8proc libpcre2-8) -lcmocka
    -lm -lpthread)

passed=0 failed=0
while IFS='|' read -r name file test change; do
    [[ -n $change ]] || continue
    name=$(sed 's/ *$//' <<<"$name") file=${file// /} test=test_train_${test// /}
    [[ $name$file == *"$filter"* ]] || continue
    rm -rf "$work/tree" && mkdir "$work/tree" && cp -r src include tests "$work/tree"
    perl -0pi -e "$change" "$work/tree/src/train/$file.c"
    verdict=caught
    if cmp -s "src/train/$file.c" "$work/tree/src/train/$file.c"; then
        verdict=stale
    elif ! (cd "$work/tree" &&
        ${CC:-cc} "${flags[@]}" "tests/$test.c" src/train/*.c "${libraries[@]}" -o "$work/test"); then
        verdict="did not build"
    elif (cd "$root" && timeout 120 "$work/test") >/dev/null 2>&1; then
        verdict=ESCAPED
    fi
    echo "$verdict: $name"
    if [[ $verdict == caught ]]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done <<<"$mutants"
echo "$passed passed, $failed failed, 0 skipped"
[[ $failed -eq 0 ]]
