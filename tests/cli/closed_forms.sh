# What attention must give where the answer is known: with scale 0 every allowed key has the same weight.
. "${BASH_SOURCE%/*}/lib.sh"
array Q.npy f4 "3, 2" 1 0 0 1 1 1
array K.npy f4 "4, 2" 1 0 0 1 1 1 0 0
array V.npy f4 "4, 1" 1 2 4 8
run() {
    attn run Q.npy K.npy V.npy -o O.npy --quiet "$@" && numbers O.npy
}
echo "mean of all values:"
run --scale 0
echo "causal, query 0 at position 0: mean of the first 1, 2, 3:"
run --scale 0 --causal --q-offset 0
echo "causal, aligned at the end: 2, 3, 4:"
run --scale 0 --causal --q-offset end
echo "causal, query 0 at position -1: none, 1, 2:"
run --scale 0 --causal --q-offset -1
echo "causal, offsets a sequence:"
run --scale 0 --causal --q-offsets 1
echo "causal, keys moved by 2 against queries at 2, 3, 4:"
run --scale 0 --causal --q-offset 2 --k-offset 1 --k-offsets 1
echo "window of one key before, none after:"
run --scale 0 --window 1,0
echo "window of no key before, all after:"
run --scale 0 --window 0,-1
echo "keys 1 and 2 only:"
run --scale 0 --k-start 1 --k-count 2
echo "two queries exist:"
run --scale 0 --q-count 2
echo "keep key 3 only, for query 1 nothing:"
array keep.npy u1 "3, 4" 0 0 0 1 0 0 0 0 0 0 0 1
run --scale 0 --keep keep.npy
echo "the opposite:"
run --scale 0 --drop keep.npy
echo "a mask of keys alone:"
array keys.npy u1 "4," 1 1 0 0
run --scale 0 --keep keys.npy
echo "bias: weights 1, 2, 4, 8 of 15, by their logarithms; -inf masks:"
array bias.npy f4 "1, 4" 0 0.6931472 1.3862944 2.0794415
run --scale 0 --bias bias.npy
array bias.npy f4 "1, 4" 0 0 -inf -inf
run --scale 0 --bias bias.npy
echo "sink 0: four keys share 4/5; sink ln 4: 1/2; -inf: none:"
run --scale 0 --sink 0
run --scale 0 --sink 1.3862944
run --scale 0 --sink -inf
echo "ALiBi slope ln 2: weights halve with every step away from the query's position:"
run --scale 0 --alibi 0.6931472 --causal --q-offset 0
echo "scores 1, 0, 1, 0 of the first query, capped at an eightieth: all but equal:"
run --scale 1 --softcap 0.0125
echo "e/(2e+2) (1 + 4) + 1/(2e+2) (2 + 8) for the first:"
run --scale 1
echo "logarithm of the sum: ln 4, ln(4 + 1):"
attn run Q.npy K.npy V.npy --lse L.npy --scale 0 --quiet && numbers L.npy
attn run Q.npy K.npy V.npy --lse L.npy --scale 0 --sink 0 --quiet && numbers L.npy
shape L.npy
echo "weights of the first query:"
attn run Q.npy K.npy V.npy --weights W.npy --scale 1 --quiet --causal && numbers W.npy && shape W.npy
echo "two sequences packed, rows 0-1 and 2 of q, 0-2 and 3 of k: their own means:"
run --scale 0 --segments 0,2,3:0,3,4
echo "dropout: the same seed the same bits, and the mean of what is kept, scaled:"
run --scale 0 --dropout 0.5 --seed 7 >first.txt
run --scale 0 --dropout 0.5 --seed 7 | cmp - first.txt && echo same
run --scale 0 --dropout 0 --seed 7
echo "the two halves of the keys, one after the other, are the whole:"
array K1.npy f4 "2, 2" 1 0 0 1
array K2.npy f4 "2, 2" 1 1 0 0
array V1.npy f4 "2, 1" 1 2
array V2.npy f4 "2, 1" 4 8
attn run Q.npy K1.npy V1.npy --partial half.npz --quiet --scale 1
attn run Q.npy K2.npy V2.npy --start half.npz --k-offset 2 -o O.npy --quiet --scale 1 && numbers O.npy
