# Outputs that cannot be written, closed descriptors, names that would drive a terminal, signals.
. "${BASH_SOURCE%/*}/lib.sh"
array Q.npy f4 "1, 1" 0
array K.npy f4 "2, 1" 0 0
array V.npy f4 "2, 1" 1 2
echo "full device:"
attn info >/dev/full; echo "exit $?"
attn --help >/dev/full; echo "exit $?"
attn run Q.npy K.npy V.npy -o O.npy >/dev/full; echo "exit $?"
echo "closed standard output, and no file gets its lines:"
attn info Q.npy >&-; echo "exit $?"
attn run Q.npy K.npy V.npy -o O.npy --json >&-; echo "exit $?"
numbers O.npy
echo "closed standard input and error:"
attn run Q.npy K.npy V.npy -o O.npy --quiet <&- 2>&-; echo "exit $?"
echo "a reader that leaves:"
(trap '' PIPE; attn info Q.npy; echo "exit $?" >&2) | true
echo "a full disk for the output:"
ln -s /dev/full full.npy
attn run Q.npy K.npy V.npy -o full.npy --quiet; echo "exit $?"
test -c full.npy && echo "the device is still a device" || { test ! -L full.npy && numbers full.npy; }
echo "control characters in names:"
attn info $'no\e]0;title\a\xc2\x9b\xe2\x80\xaename\xff\r\n.npy'; echo "exit $?"
tensors $'a\tb.safetensors' $'\\u001b[31mred' F32 1,1 "0"
attn info $'a\tb.safetensors'
attn info --json $'a\tb.safetensors'
attn run $'a\tb.safetensors' -o O.npy; echo "exit $?"
echo "interrupted: 128 + 2, nothing written, nothing left:"
array Qbig.npy f4 "20000, 1" $(perl -e 'print join " ", (0) x 20000')
mkdir big
attn run Qbig.npy Qbig.npy Qbig.npy --weights big/W.npy --dropout-head 0 --quiet --threads 1 --kernel scalar &
pid=$!
sleep 0.2
kill -INT $pid 2>/dev/null
kill -TERM $pid 2>/dev/null
wait $pid
code=$?
[ $code -ge 128 ] && echo "signal" || echo "exit $code"
ls -A big
