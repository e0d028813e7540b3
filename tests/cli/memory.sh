# Half-precision attention over 8192 rows of 32 heads stays below 200 MB over its inputs: the limit of
# ulimit -d is on private writable memory, which the mapped inputs are not.
. "${BASH_SOURCE%/*}/lib.sh"
(ulimit -d 200000 && attn --version >/dev/null 2>&1) || skip "memory of this program cannot be limited"
array Q.npy f2 "1, 32, 8192, 128"
array K.npy f2 "1, 8, 8192, 128"
array V.npy f2 "1, 8, 8192, 128"
truncate -s +67108864 Q.npy
truncate -s +16777216 K.npy
perl -e 'print "\0\x3c" x 1048576 for 1 .. 8' >>V.npy # ones
ulimit -d 200000
attn run Q.npy K.npy V.npy -o O.npy --causal --window 255,0 --softcap 30 --sink 0 --threads 2 --quiet
echo "exit $?"
shape O.npy
echo "the last row attends 256 ones and a sink: 256/257 = 0.99611, in f16 0x3bf8:"
tail -c 256 O.npy | od -An -v -tx2 | tr ' ' '\n' | sort | uniq -c | sed '/^ *[0-9]* *$/d; s/^  *//'
