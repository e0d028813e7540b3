#!/usr/bin/env bash
# Breaks the library on purpose, one small change at a time in a copy, and sees whether the tests
# notice.
#
#     tests/mutants.sh [filter]     only mutants whose name or file contains the filter
#     tests/mutants.sh stats        those of attn_stats, which have "stats" in either
#     tests/mutants.sh --places     only tells which have lost their place; runs no test
#
# A mutant is `name | file | perl substitution`. One that changes nothing has lost its place in the
# source and fails like one that escapes; both must be mended here, or a test added. One that hangs
# is caught by the limit, ATTN_MUTANT_SECONDS for each test, and says so. Needs cc, perl and cmocka.
# Ends, but for --places, with `N passed, N failed, N skipped`: caught, escaped or stale, 0.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

filter=${1:-}
jobs=${ATTN_JOBS:-$(nproc)}
cc=${CC:-cc}
limit=${ATTN_MUTANT_SECONDS:-300}
flags=(-std=c11 -O1 -ffp-contract=off -w)
# In the order in which they are tried, short runs of random calls first; the first failure ends it.
# The slow programs are left out, and so are the wide sets, which come from the same lines.
forward=("test_differential --cases 500" "test_differential --cases 4000" test_laws test_laws_bounds
         test_pairs)
backward=("test_backward_differential --cases 500" test_backward test_backward_memory)
stats=(test_stats test_stats_laws)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree" && cp -r src include tests "$work/tree" && cd "$work/tree" || exit 1 # others may edit

mutants='
causal loses its last key         | core/problem.c | s/\*hi = pos \+ 1;/*hi = pos;/
window left one short             | core/problem.c | s/\*lo = pos - m->window_left;/*lo = pos - m->window_left + 1;/
window left one long              | core/problem.c | s/\*lo = pos - m->window_left;/*lo = pos - m->window_left - 1;/
window right one short            | core/problem.c | s/\*hi = pos \+ m->window_right \+ 1;/*hi = pos + m->window_right;/
rows past q_count live            | core/problem.c | s/ \|\| i >= s->live_rows//
k_start moves positions           | core/problem.c | s/s->k_pos = m->k_offset \+/s->k_pos = start + m->k_offset +/
k_count forgets k_start           | core/problem.c | s/s->keys -= start;//
q_offsets of sequence 0           | core/problem.c | s/m->q_offsets\[b\] : 0/m->q_offsets[0] : 0/
k_offsets ignored                 | core/problem.c | s/\(m->k_offsets \? m->k_offsets\[b\] : 0\)/0/
packed keys from row 0            | core/problem.c | s/s->k_row = m->k_starts\[b\];/s->k_row = m->k_starts[0];/
block row one late                | core/problem.c | s/pos_q \/ l->q_block/(pos_q + 1) \/ l->q_block/
block column one late             | core/problem.c | s/tile_pos \/ l->k_block/(tile_pos + 64) \/ l->k_block/
queries before the block list     | core/problem.c | s/if \(pos_q < 0 \|\| row/if (row/
block list of head 0              | core/problem.c | s/\(int64_t\)h \* l->head_stride/0/
keep column not broadcast         | core/problem.c | s/keep->size\[3\] > 1 \? keep->stride\[3\] : 0/keep->stride[3]/
row broadcast by stride           | core/problem.h | s/view->size\[2\] > 1 \? i \* view->stride\[2\] : 0/i * view->stride[2]/
head broadcast by stride          | core/problem.h | s/view->size\[1\] > 1 \? h \* view->stride\[1\] : 0/h * view->stride[1]/
dropout words back to front       | core/problem.c | s/<< \(c \+ i\)/<< (c + 3 - i)/
dropout forgets the base head     | core/problem.c | s/\(uint64_t\)h \+ \(uint64_t\)a->dropout_head/(uint64_t)h/
dropout nine rounds               | core/problem.c | s/round < 10/round < 9/
keys of the next head down        | core/problem.c | s/(\*k = attn__cell\(&p->k, s->k_batch, )\(int64_t\)key_head/$1(int64_t)(key_head \/ 2)/
values of the next head down      | core/problem.c | s/(\*v = attn__cell\(&p->v, s->k_batch, )\(int64_t\)key_head/$1(int64_t)(key_head \/ 2)/
lse with the wrong sign           | core/engine.c | s/max \+ attn__log\(sum\)/max - attn__log(sum)/
lse without the sum               | core/engine.c | s/max \+ attn__log\(sum\)/max/
dead rows look empty              | core/engine.h | s/max == -INFINITY \? NAN : 1 \/ sum/1 \/ sum/
sink twice                        | core/engine_real.h | s/max, sum, NULL, sink, 1, p->width/max, sum, NULL, sink, 2, p->width/
sink of batch 0                   | core/engine_real.h | s/attn__read\(&a->sink, \(int64_t\)w->b, h, 0\)/attn__read(&a->sink, 0, h, 0)/
keep column forgets k_start       | core/engine_real.h | s/int64_t column = w->seq.column \+/int64_t column =/
softcap dropped beside a bias     | core/engine_real.h | s/p->args.softcap > 0\)/p->args.softcap > 0 \&\& !p->has_bias)/
alibi forgets q_offset            | core/engine_real.h | s/\(REAL\)\(w->seq.q_pos \+ w->row\[g \+ r\] - w->tile.pos\)/(REAL)(w->row[g + r] - w->tile.pos)/
tile function: row of the buffer  | core/engine_real.h | s/\.k_row = w->seq.column \+ t->pos/.k_row = t->pos/
tile function cannot mask         | core/engine_real.h | s/allow\[r\] &= ~w->k->find_minus_inf\([^;]*;/;/
dropout without 1 : (1 - p)       | core/engine_real.h | s/\(REAL\)\(1 \/ \(1 - p->args.dropout\)\)/1/
NaN in masked values              | core/engine_real.h | s/unsafe = t->bad & span & ~c->all;/unsafe = 0;/
last lane of sixteen lost         | core/engine_real.h | s/highest\(c->any\) \/ 16 \* 16 \+ 16/(highest(c->any) + 15) \/ 16 * 16/
a record with a sum of 1          | core/engine_real.h | s/w->total.sum\[r\] = sum;/w->total.sum[r] = 1;/
weights of head 0                 | core/engine_real.h | s/ - p->args.weights_head;/;/
weights column forgets k_start    | core/engine_real.h | s/row \+= \(w->seq.column \+ t->pos/row += (t->pos/
values in place: stride Dv        | core/tile_real.h | s/w->tile.value_stride = p->v.stride\[2\];/w->tile.value_stride = (ptrdiff_t)p->dv;/
first split skipped               | core/engine_real.h | s/\*first = low \/ attn__split;/*first = (low + attn__split - 1) \/ attn__split;/
split 1 not merged                | core/engine_real.h | s/for \(size_t i = 1; i < splits; i\+\+\)/for (size_t i = 2; i < splits; i++)/
scale without its sign            | core/engine_real.h | s/\(REAL\)p->args.scale\)/(REAL)(p->args.scale < 0 ? -p->args.scale : p->args.scale))/
merge forgets the sink            | core/merge_real.h | s/if \(sink != -\(REAL\)INFINITY\)/if (0)/
merge forgets the first of three  | core/merge_real.h | s/part == 0 \? piece : next/part <= 1 ? piece : next/
rescale skips the output          | kernels/kernels_real.h | s/K\(scale_row\)\(out, width, factor\);//
rescale skips the sum             | kernels/kernels_real.h | s/K\(scale_row\)\(sum, 16, factor\);//
merge weights swapped             | kernels/kernels_real.h | s/w1 = K\(exp_one\)\(\*max - m\);\s*w2 = K\(exp_one\)\(max2 - m\);/w2 = K(exp_one)(*max - m); w1 = K(exp_one)(max2 - m);/
merge forgets a weight            | kernels/kernels_real.h | s/\+ sum2 \* w2/+ sum2/
slack of 2^100                    | kernels/kernels_real.h | s/#define SLACK \(\(REAL\)8/#define SLACK ((REAL)100/
masked scores in the maximum      | kernels/kernels_real.h | s/V\(pick\)\(allow >> c, V\(load\)\(s \+ c\), low\)/V(load)(s + c)/
alibi without the distance sign   | kernels/kernels_real.h | s/V\(abs\)\(V\(sub\)\(from,([^;]*)\)\);/V(sub)(from,$1);/
row sum loses a quarter           | kernels/kernels_real.h | s/\(t\[0\] \+ t\[2\]\) \+ \(t\[1\] \+ t\[3\]\)/(t[0] + t[2]) + t[1]/
last column not stored            | kernels/rows_real.h | s/for \(; c < cols; c\+\+\)\s*K\(store_element\)/for (; c + 1 < cols; c++) K(store_element)/
exp2 of degree 5                  | kernels/kernels_real.h | s/V\(set1\)\(c\[EXP2_DEGREE - 1\]\)/V(set1)(0)/
log2 e of 16 bits                 | kernels/kernels_impl.h | s/0x1\.715476p\+0f/0x1.7154p+0f/
-inf scores are finite numbers    | kernels/kernels_real.h | s/sum\[0\] \+= 1;//
bf16 truncated                    | base/half.h | s/b \+ 0x7fff \+ \(\(b >> 16\) & 1\)/b/
dlse ignored                      | core/backward_real.h | s/delta\[i\] -= \(REAL\)attn__read\(&b->args.dlse[^;]*;/;/
lse of row 0                      | core/backward_real.h | s/attn__read\(&p->args.lse, batch, h, row\)/attn__read(\&p->args.lse, batch, h, 0)/
dsink with the wrong sign         | core/backward_real.h | s/sum -= \(double\)share/sum += (double)share/
dsink by the sink of batch 0      | core/backward_real.h | s/attn__read\(&p->args.sink, \(int64_t\)sequence/attn__read(\&p->args.sink, 0/
dropout missing on dP             | core/backward_real.h | s/w->k->drop\(ds \+ r \* attn__tile, c0, c1, kept\[r\], factor\);/;/
dropout missing on P for dv       | core/backward_real.h | s/w->k->drop\(weights[^;]*;/;/
stale cells left of the columns   | core/backward_real.h | s/memset\(weights \+ r \* attn__tile, 0, c0 \* sizeof\(REAL\)\);//
stale cells right of the columns  | core/backward_real.h | s/memset\(ds \+ r \* attn__tile \+ c1,[^;]*;//
dq without the scale              | core/backward_real.h | s/dq, p->d, \(REAL\)p->args.scale\)/dq, p->d, 1)/
first chunk counted twice         | core/backward_real.h | s/for \(size_t i = 1; !b->in_turn/for (size_t i = 0; !b->in_turn/
second chunk in turn lost         | core/backward_real.h | s/if \(dq && i > 0\)/if (dq \&\& i > 1)/
second chunk of the query sweep   | core/backward_real.h | s/if \(i > 0\)(\s*s->g->add\(s->total)/if (i > 1)$1/
keys that do not exist: no zeros  | core/backward_real.h | s/if \(item->index == 0\)(\s*attn__clear_missing)/if (0)$1/
slopes of the chunk before        | core/backward_real.h | s/memset\(s->slopes, 0[^;]*;//
dalibi forgets q_offset           | core/backward_real.h | s/\(REAL\)\(w->seq.q_pos \+ w->row\[g \+ r\] - w->tile.pos\)/(REAL)(w->row[g + r] - w->tile.pos)/
dbias before the tile gradient    | core/backward_real.h | s/s->job->args.tile_gradient\(p->mask.tile_user, &tile, cells\);/(void)cells;/
softcap slope left out            | core/backward_real.h | s/if \(w->capped\)\s*s->g->softcap_slope/if (0) s->g->softcap_slope/
dbias column forgets k_start      | core/backward_real.h | s/cell \+= \(w->seq.column \+ t->pos/cell += (t->pos/
infinite keys not attended        | core/backward_real.h | s/if \(!\(t->bad & span & ~all\)\)/if (1)/
infinite queries not attended     | core/backward_real.h | s/common == mine \? E\(add_to_keys\)/1 ? E(add_to_keys)/
sequences that share a sum        | core/backward.c | s/to->size\[0\] > 1 \? s \+ 1 : p->sequences/s + 1/
dbias not cleared                 | core/backward.c | s/attn__clear\(dbias,/if (0) attn__clear(dbias,/
missing keys before the first     | core/backward.c | s/attn__clear\(view\[i\], s.k_batch, h, first, s.k_row\);//
softcap slope 1 - 2 y + y^2       | kernels/gradient_real.h | s/V\(add\)\(one, y\)/V(sub)(one, y)/
masked cells keep their gradient  | kernels/gradient_real.h | s/masked \? V\(keep\)\(allow, ds\) : ds/ds/
ds without delta                  | kernels/gradient_real.h | s/V\(sub\)\(V\(load\)\(dp\), delta\)/V(load)(dp)/
last row left out of dk and dv    | kernels/gradient_real.h | s/r < rows; r\+\+, p \+= TILE/r + 1 < rows; r++, p += TILE/
distance with its sign            | kernels/gradient_real.h | s/V\(abs\)\((V\(sub\)\(from, V\(add\)\(column, V\(set1\)\(\(REAL\)c\)\)\))\)/$1/
map rows one further on           | core/stats.h | s/cell = \(number - side->first\) \/ side->block/cell = (number - side->first + 1) \/ side->block/
maps of packed keys by the longest | core/stats.c | s/return p->mask.k_starts\[sequence \+ 1\] - p->mask.k_starts\[sequence\];/return p->columns;/
maps of caches by the longest     | core/stats.c | s/return s.keys;/return p->columns;/
heads joined under a map          | core/stats.c | s/s->rows <= FEW_QUERIES && !has_map\(p\)/s->rows <= FEW_QUERIES/
sums not cleared                  | core/stats.c | s/if \(fields\[f\].shape != CELL\)\s*attn__clear\([^;]*;/;/
minus infinity of the other half  | core/stats.c | s/\? 0xfc00 : 0xff80/? 0xff80 : 0xfc00/
mean of masked parts              | core/stats.c | s/if \(cells > 0\)/if (1)/
counts wrap                       | core/stats.c | s/x\[c\] > INT32_MAX - single\[c \* step\]\s*\? INT32_MAX\s*: //
NaN in a map gives way            | core/stats.c | s/is == is && //
i32 for any number of keys        | core/stats.c | s/p->columns > INT32_MAX/p->columns < 0/
distances from the row after      | core/stats_real.h | s/\(REAL\)behind\)/(REAL)(behind + 1))/
first key never in lane 0          | core/stats_real.h | s/first >= 0 && first < attn__tile/first > 0 \&\& first < attn__tile/
previous key in the last lane     | core/stats_real.h | s/behind <= attn__tile/behind < attn__tile/
top keys forget k_start           | core/stats_real.h | s/(size_t count = s->top_count.*?int64_t column = )s->w.seq.column \+ /$1/s
top keys: the last of equals      | core/stats_real.h | s/at > 0 && x > top\[at - 1\]/at > 0 \&\& x >= top[at - 1]/
top keys: a tie takes the end     | core/stats_real.h | s/!\(x > top\[size - 1\]\)/x < top[size - 1]/
top keys of broken rows           | core/stats_real.h | s/if \(s->factor\[r\] != s->factor\[r\]\)\s*return;//
top weights past the last key     | core/stats_real.h | s/lanes\(0, \(int64_t\)count\)/lanes(0, (int64_t)padded)/
top weights of broken rows        | core/stats_real.h | s/broken \? \(double\)NAN : \(double\)cell\[c\]/(double)cell[c]/
logits of head 0                  | core/stats_real.h | s/ - s->ask->logits_head;/;/
buckets without their first edge  | core/stats_real.h | s/edge\[middle\] <= behind - from/edge[middle] < behind - from/
bucket before the first edge      | core/stats_real.h | s/if \(behind - from < edge\[at\]\)\s*return;//
bucket takes its lanes twice      | core/stats_real.h | s/\(lanes\(from, end\) & all\) == all/(lanes(from, end) \& allow) == allow/
buckets of the item before        | core/stats_real.h | s/memset\(s->buckets, 0,[^;]*;//
query weight of row 0             | core/stats_real.h | s/attn__read\(weight, \(int64_t\)w->b, \(int64_t\)w->head\[r\], w->row\[r\]\)/attn__read(weight, (int64_t)w->b, (int64_t)w->head[r], 0)/
weights of the first row of six   | core/stats_real.h | s/s->weight \+ g \+ r\)/s->weight + g)/
columns of all heads to one       | core/stats_real.h | s/w->head\[g \+ r \+ n\] == w->head\[g \+ r\] &&/1 \&\&/
chosen rows: the next one too     | core/stats_real.h | s/ && ask->rows\[low\] == row \? low/ ? low/
map rows by the longest sequence  | core/stats_real.h | s/s->side\[0\].all = w->seq.rows;/s->side[0].all = w->p->rows;/
map row held from another item    | core/stats_real.h | s/s->has_held = s->carries = false;/s->carries = false;/
map row carried over a block lost | core/stats_real.h | s/if \(s->map_used > kept\)/if (1)/
map row left open between blocks  | core/stats_real.h | s/size_t kept = s->carries;/size_t kept = 0;/
count of the rows that see most   | core/stats_real.h | s/sums->all & allow\[r\]/sums->all | allow[r]/
largest of a map: no NaN          | core/stats_real.h | s/sums->broken \|= allow\[r\];/;/
NaN in a cell gives way           | core/stats_real.h | s/\(double\)max > \*top \? \(double\)max : \*top/*top > (double)max ? *top : (double)max/
broken rows of the cell before    | core/stats_real.h | s/sums->any = sums->broken = 0;/sums->any = 0;/
cells of the first tile of a map   | core/stats_real.h | s/if \(!have && s->side\[1\].cells > 0\)/if (s->spans == 0)/
moment keeps its reference        | kernels/stats_kernels_real.h | s/\(\*moment \+ \*sum \* x\) \* factor/*moment * factor/
moment moves too early            | kernels/stats_kernels_real.h | s/V\(set1\)\(\*max \+ SLACK\)\) && \*max/V(set1)(*max)) \&\& *max/
masked lanes in the moment        | kernels/stats_kernels_real.h | s/V\(max\)\(V\(set1\)\(FAR_BELOW\), x\)/x/
peak in the first lanes           | kernels/stats_kernels_real.h | s/at \+ \(int64_t\)c \+ __builtin_ctzll/at + __builtin_ctzll/
candidates that are masked        | kernels/stats_kernels_real.h | s/return bits & allow;/return bits;/
last row left out of key masses   | kernels/stats_kernels_real.h | s/for \(size_t r = 0; r < mr; r\+\+\) \{\s*vd by/for (size_t r = 0; r + 1 < mr; r++) { vd by/
stats: entropy of the sink too     | core/engine_real.h | s/\(double\)l \* attn__log\(all\)/all * attn__log(all)/
stats: moment forgets the sink    | core/engine_real.h | s/if \(before != \*max\)/if (0)/
stats: peak of the last split     | core/engine_real.h | s/next->peak\[r\] > into->peak\[r\]/next->peak[r] >= into->peak[r]/
stats: splits not moved together  | core/engine_real.h | s/k->move_moment\(&moment2, &sum2, next->max\[r\], max\);//
'

if [[ $filter == --places ]]; then
    while IFS='|' read -r name file change; do
        [[ $name ]] || continue
        perl -0pe "${change# }" "src/${file// /}" | cmp -s - "src/${file// /}" && echo "STALE    $name"
    done <<<"$mutants"
    exit 0
fi

# Compiles files of a tree into a folder, with a list beside each of what it includes.
compile() # tree, folder, files...
{
    local root=$1 to=$2 file
    shift 2
    for file; do
        (cd "$root" && "$cc" "${flags[@]}" -I. -MMD -MF "$to/${file//\//_}.d" -c "$file" \
            -o "$to/${file//\//_}.o") || return
    done
}

# The sources that hold or include a file, by the lists of the first build; of kernels only the
# scalar ones.
dependents() # file
{
    local source
    for source in src/base/*.c src/kernels/*.c src/core/*.c; do
        [[ $source == *kernels_[an]* ]] && continue
        grep -q "[ /]$1\b" "$work/base/${source//\//_}.d" && echo "$source"
    done
}

# The runs that should notice a mutant, a line each.
runs_for() # name and file
{
    case $1 in
    *stats*) printf '%s\n' "${stats[@]}" ;;
    *backward* | *gradient*) printf '%s\n' "${backward[@]}" ;;
    *) printf '%s\n' "${forward[@]}" ;;
    esac
}

# Links the tests with the objects in folder $1 and runs those that follow. Prints the first that fails.
first_failure() # folder, runs...
{
    local to=$1 run test
    shift
    for run; do
        test=${run%% *}
        [[ -e $to/$test ]] || "$cc" -o "$to/$test" "$work/base/$test.o" "$work"/base/support/*.o \
            "$to"/src_*.o -lcmocka -lpthread -lm || return
        # shellcheck disable=SC2086
        timeout "$limit" "$to"/$run --set scalar >"$to/log" 2>&1 && continue
        if (($? == 124)); then # a bug that hangs, or a machine too busy to tell
            run+=" (no end in $limit s)"
        fi
        echo "$run"
        return 0
    done
}

try() # name, file, substitution
{
    local dir caught runs
    dir=$(mktemp -d "$work/mXXXXXX")
    mkdir "$dir/tree"
    cp -r src include "$dir/tree/"
    perl -0pi -e "$3" "$dir/tree/src/$2"
    if cmp -s "src/$2" "$dir/tree/src/$2"; then
        echo "STALE    $1"
        return
    fi
    cp "$work"/base/src_*.o "$dir/"
    mapfile -t runs < <(runs_for "$1 $2")
    # shellcheck disable=SC2046
    compile "$dir/tree" "$dir" $(dependents "src/$2") || {
        echo "STALE    $1 (does not compile)"
        return
    }
    caught=$(first_failure "$dir" "${runs[@]}") || caught=
    rm -rf "$dir"
    if [[ $caught ]]; then
        echo "caught   $1: $caught"
    else
        echo "ESCAPED  $1"
    fi
}

build_base()
{
    local file
    mkdir -p "$work/base/support"
    compile . "$work/base" src/base/*.c src/kernels/*.c src/core/*.c || return
    for file in tests/*.c; do
        case $file in
        tests/test_*) ;;
        *) grep -qE "attn/(io|nn|text|train|viz)\.h|pictures\.h" "$file" || "$cc" "${flags[@]}" -I. -c "$file" \
               -o "$work/base/support/$(basename "$file" .c).o" || return ;;
        esac
    done
    for file in $(printf '%s\n' "${needed[@]%% *}" | sort -u); do
        "$cc" "${flags[@]}" -I. -c "tests/$file.c" -o "$work/base/$file.o" || return
    done
}

# All runs that the chosen mutants need, each once.
mapfile -t needed < <(while IFS='|' read -r name file change; do
    [[ $name && "$name $file" == *"$filter"* ]] && runs_for "$name $file"
done <<<"$mutants" | awk '!seen[$0]++')

build_base || exit 1
mkdir "$work/check"
cp "$work"/base/src_*.o "$work/check/"
broken=$(first_failure "$work/check" "${needed[@]}") || exit 1
if [[ $broken ]]; then
    echo "the tests fail without any mutant: $broken"
    tail -5 "$work/check/log"
    exit 1
fi

while IFS='|' read -r name file change; do
    [[ $name && "$name $file" == *"$filter"* ]] || continue
    while (($(jobs -rp | wc -l) >= jobs)); do
        wait -n
    done
    # A substitution may hold bars of its own: read puts them all in the last name.
    try "$(sed 's/ *$//' <<<"$name")" "${file// /}" "${change# }" | tee -a "$work/result" &
done <<<"$mutants"
wait

caught=$(grep -c '^caught' "$work/result")
lost=$(grep -vc '^caught' "$work/result")
echo "$caught passed, $lost failed, 0 skipped"
((caught > 0 && lost == 0))
