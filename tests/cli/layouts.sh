# Layouts, grouped heads, types, and files of several tensors.
. "${BASH_SOURCE%/*}/lib.sh"
echo "one query a head, two heads; head 1 of q reads key head 1:"
array Q.npy f4 "1, 2, 1, 1" 1 1
array K.npy f4 "1, 2, 3, 1" 0 0 0 0 0 0
array V.npy f4 "1, 2, 3, 1" 1 2 3 10 20 30
attn run Q.npy K.npy V.npy -o O.npy --quiet && numbers O.npy && shape O.npy
echo "the same numbers as [batch, rows, heads, columns] with one key row and three heads:"
array Qs.npy f4 "1, 1, 3, 1" 1 1 1
array Ks.npy f4 "1, 2, 3, 1" 0 0 0 0 0 0
attn run Qs.npy Ks.npy V.npy --layout bshd -o O.npy --lse L.npy --quiet && numbers O.npy && shape O.npy && shape L.npy
echo "[rows, heads, columns]:"
array Q3.npy f4 "1, 3, 1" 1 1 1
array K3.npy f4 "2, 3, 1" 0 0 0 0 0 0
array V3.npy f4 "2, 3, 1" 1 2 3 10 20 30
attn run Q3.npy K3.npy V3.npy --layout bshd -o O.npy --quiet && numbers O.npy && shape O.npy
echo "[batch, rows, columns] of one head:"
array Q3.npy f4 "2, 1, 1" 1 1
array K3.npy f4 "2, 3, 1" 0 0 0 0 0 0
array V3.npy f4 "2, 3, 1" 1 2 3 10 20 30
attn run Q3.npy K3.npy V3.npy --layout sd -o O.npy --weights W.npy --quiet && numbers O.npy && shape O.npy && shape W.npy
echo "four query heads on two key heads:"
array Q4.npy f4 "1, 4, 1, 1" 1 1 1 1
attn run Q4.npy K.npy V.npy -o O.npy --quiet && numbers O.npy
echo "a sink a head, in words and from a file:"
attn run Q.npy K.npy V.npy -o O.npy --sink=-inf,1.0986123 --quiet && numbers O.npy
array sink.npy f4 "2," -inf 1.0986123
attn run Q.npy K.npy V.npy -o O.npy --sink sink.npy --quiet && numbers O.npy
echo "lengths a sequence, in words and from a file:"
attn run Q3.npy K3.npy V3.npy --layout sd -o O.npy --k-count 1,2 --quiet && numbers O.npy
array counts.npy i4 "2," 1 2
attn run Q3.npy K3.npy V3.npy --layout sd -o O.npy --k-count counts.npy --quiet && numbers O.npy

echo "f16 in, f16 out, and f32 out:"
array Qh.npy f2 "1, 1" 0
array Kh.npy f2 "2, 1" 0 0
array Vh.npy f2 "2, 1" 15360 16384
attn run Qh.npy Kh.npy Vh.npy -o O.npy --quiet && shape O.npy && numbers O.npy f2
attn run Qh.npy Kh.npy Vh.npy -o O.npy --out-type f32 --quiet && shape O.npy && numbers O.npy
echo "f64:"
array Qd.npy f8 "1, 1" 0
array Kd.npy f8 "2, 1" 0 0
array Vd.npy f8 "2, 1" 1 2
attn run Qd.npy Kd.npy Vd.npy -o O.npy --lse L.npy --quiet && shape O.npy && numbers O.npy f8 && numbers L.npy f8
echo "bf16 out:"
attn run Qh.npy Kh.npy Vh.npy -o O.safetensors --out-type bf16 --quiet && shape O.safetensors

echo "one file in, one file out:"
tensors qkv.safetensors q F32 1,1 "0" k F32 3,1 "0 0 0" v F32 3,1 "1 2 3" query F32 1,1 "5" sink F32 1 "1.0986123"
attn run qkv.safetensors -o all.npz --lse all.npz --weights all.npz --quiet && attn info all.npz
attn run qkv.safetensors --q query -o O.npy --quiet && numbers O.npy
echo "a sink by its name in the same file:"
attn run qkv.safetensors --sink qkv.safetensors -o O.npy --quiet && numbers O.npy
echo "and on from the .npz (out is the query, three keys):"
attn run all.npz qkv.safetensors qkv.safetensors --q out -o O.npy --quiet && numbers O.npy

echo "a block list: the only query block sees the second key block, of one key:"
perl -e 'print join(" ", (0) x 65), "\n"' >zeros.txt
array K65.npy f4 "65, 1" $(cat zeros.txt)
array V65.npy f4 "65, 1" $(perl -e 'print join " ", 1 .. 65')
array Q1.npy f4 "1, 1" 0
tensors blocks.safetensors start I64 2 "0 1" index I64 1 "1" q_block I64 "" "64" k_block I64 "" "64"
attn run Q1.npy K65.npy V65.npy -o O.npy --blocks blocks.safetensors --quiet && numbers O.npy
tensors blocks.safetensors start I64 2 "0 1" index I64 1 "0" q_block I64 "" "64" k_block I64 "" "64"
attn run Q1.npy K65.npy V65.npy -o O.npy --blocks blocks.safetensors --quiet && numbers O.npy
