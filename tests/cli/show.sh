# attn show: weights from files, as text here; the formats themselves are tested in tests/test_viz*.c.
. "${BASH_SOURCE%/*}/lib.sh"
array W.npy f4 "3, 3" 1 0 0 0.25 0.75 0 0.1 0.3 0.6
printf 'The\ncaf\xc3\xa9\n\x1b[31msat\n' >tokens.txt
echo "--- one head"
attn show W.npy
echo "--- with tokens"
attn show W.npy --tokens tokens.txt --causal --title "three words"
echo "--- a part"
attn show W.npy --queries 1:3 --keys 1:2 --title part
echo "--- lines"
attn show W.npy --kind lines --tokens tokens.txt --share 0.9 --title lines
echo "--- several heads"
array H.npy f4 "2, 2, 2" 1 0 0.5 0.5 0 1 1 0
attn show H.npy --title heads
attn show H.npy --head 1 --title one
echo "--- colours only where asked for"
attn show W.npy --format 256 --title x | head -3 | cat -v
echo "--- files"
for ending in png svg html txt; do
    attn show W.npy --tokens tokens.txt -o map.$ending && head -c 15 map.$ending | cat -v | head -1
    echo
done
grep -o '<desc.*</desc>' map.svg
attn show W.npy -o map.png && attn show W.npy --kind overlay --queries 2:3 --image map.png --patches 1,2 \
    -o overlay.svg && grep -c '<image' overlay.svg
echo "--- limits that hide values say so, equal values too"
attn show W.npy --low 0.5 --high 0.5 --title x | sed -n 2p
attn show W.npy --queries 0:1 --keys 1:3 --title x | sed -n 2p
echo "--- mistakes"
fails() {
    attn "$@"
    echo "exit $?"
}
fails show
fails show none.npy
fails show W.npy -o map.gif
fails show W.npy --head 1
fails show W.npy --queries 2:9
fails show W.npy --tokens none.txt
printf 'a\nb\n' >two.txt
fails show W.npy --tokens two.txt
fails show W.npy --low 1
fails show W.npy --kind overlay
fails show W.npy --colours diverging --scale log
fails show W.npy --image map.png
array I.npy i4 "2, 2" 1 2 3 4
fails show I.npy
array ONE.npy f4 "3," 1 2 3
fails show ONE.npy
fails show W.npy --tensor none
echo "--- queries and keys"
array Q.npy f4 "1, 2, 4, 2" 1 0 0 1 1 1 0 0 2 0 0 2 1 -1 3 1
array K.npy f4 "1, 1, 4, 2" 1 0 0 1 1 1 2 -2
attn show Q.npy K.npy --head 1 --causal --title "head 1"
attn show Q.npy K.npy --head 0 --cells 2 --reduce sum --title "pooled"
attn show Q.npy K.npy --head 0 --queries 1:3 --keys 2:4 --title "part"
echo "--- patches are single weights of one query, however small maps have to be"
attn show Q.npy K.npy --head 1 --kind overlay --image map.png --patches 2,2 --title patches
attn show Q.npy K.npy --head 1 --kind overlay --image map.png --patches 2,2 --title patches --cells 2
echo "--- the same from weights"
attn run Q.npy K.npy K.npy -o O.npz --weights W2.npz --causal --quiet
attn show W2.npz --head 1 --causal --title "head 1"
attn show Q.npy K.npy --causal --stats stats.csv && cat stats.csv
attn show Q.npy K.npy --head 1 --window 1,0 --stats stats.json && cat stats.json
echo "--- the same from weights, but for rounding"
attn show W2.npz --causal --stats weights.csv && perl -e '
    my @a = split /[\n,]/, `cat stats.csv`; my @b = split /[\n,]/, `cat weights.csv`; my $n = 0;
    for (0 .. $#a) { $n++ if $a[$_] ne $b[$_] && !(abs($a[$_] - $b[$_]) < 1e-6) } print scalar(@b), " numbers, $n differ\n"'
attn show Q.npy K.npy --causal --stats stats.json && attn show W2.npz --causal --stats weights.json && perl -e '
    my @a = `cat stats.json` =~ /-?[0-9.]+(?:e-?\d+)?/g; my @b = `cat weights.json` =~ /-?[0-9.]+(?:e-?\d+)?/g; my $n = 0;
    for (0 .. $#a) { $n++ unless abs($a[$_] - $b[$_]) < 1e-6 } print scalar(@a) - scalar(@b), " more numbers, $n differ\n"'
array P.npy f4 "3, 3" 0 0 0 0.25 0.25 0.25 0 0 1
attn show P.npy --stats p.csv && cat p.csv
attn show P.npy --queries 1:3 --kind entropy --title entropy --width 60 | sed 's/ *$//'
attn show W2.npz --kind distance -o distance.svg && grep -c '<path\|<polyline' distance.svg
array N.npy f4 "2, 2" 1 0 0.5 -1
fails show N.npy --stats n.csv
attn show Q.npy K.npy --kind distance --title distance -o distance.svg && grep -c '<path\|<polyline' distance.svg
attn show Q.npy K.npy --kind entropy -o entropy.svg && grep -c entropy entropy.svg
echo "--- mistakes with them"
fails show Q.npy none.npy
fails show Q.npy W.npy
fails show W.npy --rows 1
fails show Q.npy K.npy --stats x.txt
fails show Q.npy K.npy --rows 1,0 -o x.html --cells 2
fails show Q.npy K.npy --rows 4 -o x.html
fails show Q.npy K.npy --cells 2 --drop-keys 1
fails show Q.npy K.npy --layer 1
fails show Q.npy K.npy --window 3
fails show Q.npy K.npy --stats no/such/x.json
