# The shape of the bench's answers; how fast it is depends on the machine.
. "${BASH_SOURCE%/*}/lib.sh"
cat >shapes.jsonl <<'SHAPES'
{"op":"forward","dtype":"f32","b":2,"hq":4,"hkv":2,"nq":9,"nk":9,"dk":8,"dv":4,"causal":1,"name":"square"}

{"op":"forward","dtype":"bf16","b":5,"hq":2,"hkv":1,"nq":3,"nk":8,"dk":8,"dv":8,"causal":2,"mask":"keep","name":"padded"}
{"op":"forward","dtype":"f16","b":1,"hq":2,"hkv":2,"nq":3,"nk":8,"dk":8,"dv":8,"causal":0,"mask":"bias","name":"biased"}
{"op":"backward","dtype":"f32","b":1,"hq":1,"hkv":1,"nq":4,"nk":4,"dk":8,"dv":8,"causal":0,"name":"gradient"}
{"op":"gemm","dtype":"f32","m":8,"n":8,"k":8,"name":"product"}
SHAPES
# keys FIELD...: the keys of each JSON line, or the values of the named fields
keys() {
    perl -MJSON::PP -e 'while (<STDIN>) { my $o = JSON::PP->new->decode($_);
        print join(" ", @ARGV ? map { "$_=" . ($o->{$_} // "-") } @ARGV : sort keys %$o), "\n" }' "$@"
}
perl -MJSON::PP -e 1 2>/dev/null || skip "no JSON module for perl"
fast="--budget 0.001 --repeat 3 --threads 1"
attn bench --shapes shapes.jsonl --json $fast >rows.jsonl; echo "exit $?"
keys <rows.jsonl
keys op name threads repeat <rows.jsonl
echo "rates are positive, ratios follow from them, gflops from flops and time (72 f 2 x 4 x 45 x 12 x 2):"
perl -MJSON::PP -ne 'my $o = JSON::PP->new->decode($_); next if $o->{error};
    my $f = $o->{gflops} * $o->{ms_median} * 1e6;
    my $peak = $o->{peak_before} > $o->{peak_after} ? $o->{peak_before} : $o->{peak_after};
    print "$o->{name}: ", ($o->{ms_min} > 0 && $o->{ms_min} <= $o->{ms_median} ? "ok" : "bad times"), " ",
        (abs($o->{peak_gflops} - $peak) < 0.02 && $peak > 0.1 ? "ok" : "bad peak"), " ",
        (abs($o->{ratio} - $o->{gflops} / $peak) < 0.001 ? "ok" : "bad ratio"), "\n"' rows.jsonl
echo "decode:"
attn bench --op decode --dtype f16 --hq 4 --hkv 2 --nk 300 --dk 8 --json $fast | keys
attn bench --op decode --nq 2 --causal 2 --nk 40 --layout bhsd --json $fast | keys op dtype b hq hkv nq nk dk dv causal
echo "a shape of options has all its keys:"
attn bench --hq 6 --nq 7 --dk 5 --mask keep --json $fast | keys op dtype b hq hkv nq nk dk dv causal mask
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
    perl -MJSON::PP -ne 'my $a = JSON::PP->new->decode($_)->{against}; print join(" ", %$a > 0 ? map { "$_ " . ($a->{$_} > 1e6 ? "faster" : "slower") } sort keys %$a : "none"), "\n"'
echo "table:"
attn bench --shapes shapes.jsonl $fast | sed 's/[0-9][0-9.]*/N/g; s/  */ /g; s/avx[N0-9]*\|scalar\|neon/SET/; s/tiled\|split-key/PATH/'
for set in scalar avx2 avx512 neon; do
    attn info --json | grep -q "\"name\": \"$set\", \"available\": true" || continue
    attn bench --nq 4 --kernel $set --json $fast | keys kernel | grep -qx "kernel=$set" || echo "$set: wrong kernel"
done
