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
echo "a reader that has left:"
exec 4> >(exec true)
wait $!
(trap '' PIPE; attn info Q.npy >&4; echo "exit $?")
exec 4>&-
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

# long ARGUMENTS...: a run over 120,000 rows in the background; returns once it is under way. A shell
# has its background ignore SIGINT, which perl undoes; the alarm ends what no signal ends.
array long.npy f4 "120000, 1"
truncate -s +480000 long.npy
long() {
    perl -e '$SIG{INT} = "DEFAULT"; alarm 200; exec @ARGV' \
        attn run "$@" -o O.npy --k-count 30000 --progress --threads 1 --kernel scalar 2>log.txt &
    pid=$!
    until grep -q left log.txt 2>/dev/null || ! kill -0 $pid; do sleep 0.05; done
}
for signal in INT TERM; do
    mkdir $signal && cd $signal
    echo "SIG$signal while computing: 128 + n, nothing written, nothing left:"
    long ../long.npy ../long.npy ../long.npy
    kill -$signal $pid
    wait $pid
    echo "exit $?"
    grep -v left log.txt
    ls -A
    cd ..
done
echo "an input that is cut short meanwhile: 128 + SIGBUS:"
cp long.npy cut.npy
long cut.npy long.npy long.npy
truncate -s 4096 cut.npy
wait $pid
echo "exit $?"
grep -v left log.txt
