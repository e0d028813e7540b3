# The shape of the bench's answers; how fast it is depends on the machine.
. "${BASH_SOURCE%/*}/lib.sh"
cat >shapes.jsonl <<'SHAPES'
{"op":"forward","dtype":"f32","b":2,"hq":4,"hkv":2,"nq":9,"nk":9,"dk":8,"dv":4,"causal":1,"name":"square"}

{"op":"forward","dtype":"bf16","b":5,"hq":2,"hkv":1,"nq":3,"nk":8,"dk":8,"dv":8,"causal":2,"mask":"keep","name":"padded"}
{"op":"forward","dtype":"f16","b":1,"hq":2,"hkv":2,"nq":3,"nk":8,"dk":8,"dv":8,"causal":0,"mask":"bias","name":"biased"}
{"op":"backward","dtype":"f32","b":1,"hq":1,"hkv":1,"nq":4,"nk":4,"dk":8,"dv":8,"causal":0,"name":"gradient"}
{"op":"gemm","dtype":"f32","m":8,"n":64,"k":64,"name":"product"}
SHAPES
# Bench lines are flat JSON but for "against"; this much perl reads them without its modules.
export PERL5LIB=$PWD
cat >Row.pm <<'PERL'
package Row;
sub read { my %row; while ($_[0] =~ /"(\w+)": ("[^"]*"|\{[^}]*\}|[^,}]+)/g) { ($row{$1} = $2) =~ s/"//g } \%row }
1;
PERL
# keys FIELD...: the keys of each line, or the values of the named fields
keys() {
    perl -MRow -ne 'BEGIN { @fields = splice @ARGV } my $row = Row::read($_);
        print join(" ", @fields ? map { "$_=" . ($row->{$_} // "-") } @fields : sort keys %$row), "\n"' "$@"
}
fast="--budget 0.001 --repeat 3 --threads 1"
attn bench --shapes shapes.jsonl --json $fast >rows.jsonl; echo "exit $?"
keys <rows.jsonl
keys op name threads repeat <rows.jsonl
echo "rates are positive and ratios follow from them:"
perl -MRow -ne 'my $o = Row::read($_); next if $o->{error};
    my $peak = $o->{peak_before} > $o->{peak_after} ? $o->{peak_before} : $o->{peak_after};
    print "$o->{name}: ", ($o->{ms_min} > 0 && $o->{ms_min} <= $o->{ms_median} ? "ok" : "bad times"), " ",
        (abs($o->{peak_gflops} - $peak) < 0.02 && $peak > 0.1 ? "ok" : "bad peak"), " ",
        (abs($o->{ratio} - $o->{gflops} / $peak) < 0.001 ? "ok" : "bad ratio"), "\n"' rows.jsonl
echo "gflops times time is the number of operations: 2 x 2 x 4 x 45 x 12; 2 x 2 x 78 x 16; 2 x 2 x 24 x 16; 2.5 x 2 x 16 x 16; 2 x 8 x 64 x 64:"
perl -MRow -ne 'my $o = Row::read($_); next if $o->{error};
    my $f = $o->{gflops} * $o->{ms_median} * 1e6; printf "%s %.0f\n", $o->{name}, $f' rows.jsonl >flops.txt
while read -r name flops; do
    case $name in
    square) want=8640 ;;
    padded) want=4992 ;;
    biased) want=1536 ;;
    gradient) want=1280 ;;
    product) want=65536 ;;
    esac
    # times of microseconds and rates are rounded, which leaves a few per cent
    perl -e 'my ($n, $f, $w) = @ARGV; print "$n ", (abs($f - $w) <= 0.05 * $w ? "ok" : "$f, expected $w"), "\n"' "$name" "$flops" $want
done <flops.txt
echo "decode:"
attn bench --op decode --dtype f16 --hq 4 --hkv 2 --nk 300 --dk 8 --json $fast | keys
attn bench --op decode --nq 2 --causal 2 --nk 40 --layout bhsd --json $fast | keys op dtype b hq hkv nq nk dk dv causal
echo "a shape of options has all its keys:"
attn bench --hq 6 --nq 7 --dk 5 --mask keep --json $fast | keys op dtype b hq hkv nq nk dk dv causal mask
echo "with statistics, and in turn without:"
for stats in entropy map; do
    attn bench --hq 2 --nq 7 --dk 5 --stats $stats --json $fast >stats.jsonl
    keys stats <stats.jsonl
    perl -MRow -ne 'my $o = Row::read($_); print $o->{ms_plain} > 0 && $o->{over_plain} > 0.1 &&
        $o->{over_plain} < 1000 ? "ok\n" : "bad: $_"' stats.jsonl
done
attn bench --op decode --hkv 2 --hq 4 --nk 90 --dtype i8 --stats map --json $fast | keys op stats
attn bench --nq 7 --stats entropy $fast | grep -c 'entropy .* x plain$'
attn bench --op backward --nq 7 --stats map $fast; echo "exit $?"
echo '{"stats": "all"}' | attn bench --shapes - $fast; echo "exit $?"
echo "only:"
attn bench --shapes shapes.jsonl --only squ --json $fast | keys name
attn bench --shapes - --only gemm --json $fast <shapes.jsonl | keys name
echo "against:"
cat >peers.jsonl <<'PEERS'
{"op":"forward","dtype":"f32","b":2,"hq":4,"hkv":2,"nq":9,"nk":9,"dk":8,"dv":4,"causal":1,"peer":"slow","ms_median":1e9,"threads":1}
{"op":"forward","dtype":"f32","b":2,"hq":4,"hkv":2,"nq":9,"nk":9,"dk":8,"dv":4,"causal":1,"peer":"wide","ms_median":1,"threads":64}
{"op":"forward","dtype":"f32","b":1,"hq":4,"hkv":2,"nq":9,"nk":9,"dk":8,"dv":4,"causal":1,"peer":"other","ms_median":1,"threads":1}
{"op":"forward","dtype":"f32","b":2,"hq":4,"hkv":2,"nq":9,"nk":9,"dk":8,"dv":4,"causal":1,"peer":"broken","error":"no"}
{"op":"train","peer":"another"}
PEERS
attn bench --shapes shapes.jsonl --only square --json $fast --against peers.jsonl |
    perl -MRow -ne 'my ($a) = /"against": \{([^}]*)\}/; print join(" ", map { /"(\w+)": (.*)/; "$1 " . ($2 > 1e6 ? "slower" : "faster") . " than ours" } split /, /, $a), "\n"'
echo "table:"
attn bench --shapes shapes.jsonl $fast | sed 's/[0-9][0-9.]*/N/g; s/  */ /g; s/avx[N0-9]*\|scalar\|neon/SET/; s/tiled\|split-key\|packed\|heads/PATH/'
for set in scalar avx2 avx512 neon; do
    attn info --json | grep -q "\"name\": \"$set\", \"available\": true" || continue
    attn bench --nq 4 --kernel $set --json $fast | keys kernel | grep -qx "kernel=$set" || echo "$set: wrong kernel"
done
echo "training: 3 x (6144 + 11776 + 1408) + 14 x 8 x 62 operations a step:"
attn bench --op train --d 8 --ff 16 --heads 2 --layers 1,1 --vocab 11 --batch 2 --src 3 --tgt 4 --json $fast >train.jsonl
keys <train.jsonl
keys op params dropout <train.jsonl
perl -MRow -ne 'my $o = Row::read($_); my $f = $o->{gflops} * $o->{ms_median} * 1e6;
    print abs($f / 64928 - 1) < 0.02 ? "ok" : "bad: $f", " ",
    abs($o->{tokens_s} / (14 / $o->{ms_median} * 1e3) - 1) < 0.02 ? "ok" : "bad rate", "\n"' train.jsonl
attn bench --op train --layers 1,2,3 $fast; echo "exit $?"
