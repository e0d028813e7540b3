# Every message says what is wrong, where, and what was expected; 2 is a command line, 1 is the rest.
. "${BASH_SOURCE%/*}/lib.sh"
array Q.npy f4 "3, 2" 1 0 0 1 1 1
array K.npy f4 "4, 2" 1 0 0 1 1 1 0 0
array V.npy f4 "4, 1" 1 2 4 8
ok="attn run Q.npy K.npy V.npy -o O.npy"
echo "- commands and options"
try attn
try attn rnu
try attn run --helf
try $ok --thread 2
try $ok --zzzzzzzz
try $ok -x
try $ok --threads
try $ok --threads --json
try $ok --threads two
try $ok --threads 5000
try $ok --causal=1
try $ok --kernel mmx
try $ok --layout hbsd
try $ok --scale nan
try $ok --softcap -1
try $ok --dropout 1
try $ok --out ""
echo "- files"
try attn run
try attn run Q.npy K.npy -o O.npy
try attn run Q.npy K.npy V.npy
try attn run Q.npy K.npy missing.npy -o O.npy
try attn run Q.npy -o O.npy
try attn run Q.npy K.npy V.npy -o O.txt
try attn run Q.npy K.npy V.npy -o O.npy --out-type bf16
try attn run Q.npy K.npy V.npy -o O.npy --lse O.npy
try attn run Q.npy K.npy V.npy -o no/folder/O.npy
try attn run Q.npy K.npy V.npy --partial P.npy
try attn run Q.npy K.npy V.npy -o O.npy --partial P.npz
echo text >text.npy
try attn run text.npy K.npy V.npy -o O.npy
head -c 140 K.npy >short.npy
try attn run Q.npy short.npy V.npy -o O.npy
tensors two.safetensors a F32 1,1 "0" b F32 1,1 "0"
try attn run two.safetensors -o O.npy
try attn run two.safetensors K.npy V.npy -o O.npy
array int.npy i8 "3, 2" 1 2 3 4 5 6
try attn run int.npy K.npy V.npy -o O.npy
array five.npy f4 "1, 1, 1, 1, 2" 1 2
try attn run five.npy K.npy V.npy -o O.npy
echo "- shapes"
array wide.npy f4 "4, 3" 1 0 0 1 1 1 0 0 0 0 0 0
try attn run Q.npy wide.npy V.npy -o O.npy
try attn run Q.npy K.npy Q.npy -o O.npy
echo "- values of options"
try $ok --window 3
try $ok --window -2,0
try $ok --q-offset last
try $ok --q-offset end --q-offsets 1
try $ok --k-count 1,2
array counts.npy i4 "2," 1 2
try $ok --k-count counts.npy
try $ok --k-count V.npy
try $ok --k-count 1,x
try $ok --k-count 9
try $ok --segments 0
try $ok --segments 0,3
try $ok --segments 0,2,1:0,1,2
try $ok --segments 0,1,3:0,4
try $ok --sink 1,2
try $ok --sink x.npy
try $ok --sink K.npy
try $ok --sink counts.npy
try $ok --alibi 1,2
try $ok --keep Q.npy
try $ok --bias int.npy
try $ok --keep Q.npy --drop Q.npy
try $ok --blocks two.safetensors
try $ok --dropout 0.5
try $ok --dropout 0.5 --seed -1
try $ok --weights-heads 0:1
try $ok --weights W.npy --weights-heads 0:2
try $ok --weights W.npy --weights-heads one
try attn run Q.npy K.npy V.npy --start two.safetensors -o O.npy
echo "- other commands"
try attn info missing.npy Q.npy
try attn info --jsn
try attn bench
try attn bench --nq 4 --shapes x
try attn bench --shapes missing.jsonl
echo '{"op": "forward", ' >bad.jsonl
try attn bench --shapes bad.jsonl
echo '{"op": "sideways"}' >bad.jsonl
try attn bench --shapes bad.jsonl
echo '{"op": "forward", "hq": 3, "hkv": 2}' >bad.jsonl
try attn bench --shapes bad.jsonl
echo '{"op": "forward", "nq": -3}' >bad.jsonl
try attn bench --shapes bad.jsonl
try attn bench --hq 4 --only x
try attn bench stray
echo "- nothing was written by any of these"
ls O.* P.* W.* 2>/dev/null
exit 0
