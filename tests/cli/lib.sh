# lib.sh: what the tests of the program share; the first thing each of them sources.
#
#     bash tests/cli/NAME.sh PROGRAM            compares what it prints with NAME.expected
#     bash tests/cli/NAME.sh PROGRAM --bless    takes what it prints as expected; read it first
#
# The part below runs the script a second time, in an empty folder of its own with the program on the
# PATH as `attn`, and ends with the line `N passed, N failed, N skipped`.
export LC_ALL=C TERM=dumb
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [[ -z ${ATTN_CLI_INSIDE-} ]]; then
    program=$(realpath -- "${1:?which program?}")
    [[ -x $program ]] || { echo "$1 is no program" >&2; exit 2; }
    name=$(basename "$0" .sh)
    work=$(mktemp -d) || exit 2
    trap 'rm -rf "$work"' EXIT
    mkdir "$work/bin" "$work/here" && ln -s "$program" "$work/bin/attn"
    (cd "$work/here" && ATTN_CLI_INSIDE=1 PATH=$work/bin:$PATH bash "$here/$name.sh") \
        >"$work/output" 2>&1 </dev/null
    code=$?
    if [[ $code -eq 77 ]]; then
        tail -n 1 "$work/output"
        echo "0 passed, 0 failed, 1 skipped"
        exit 0
    fi
    [[ ${2-} == --bless ]] && cp "$work/output" "$here/$name.expected"
    if [[ $code -eq 0 ]] && diff -u "$here/$name.expected" "$work/output"; then
        echo "1 passed, 0 failed, 0 skipped"
        exit 0
    fi
    [[ $code -eq 0 ]] || cat "$work/output"
    echo "$name.sh: exit $code"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi

# array FILE TYPE SHAPE VALUE...: writes a .npy file. TYPE is f4, f8, i4, i8, u1 or f2; values of f2 are
# given as the numbers of their bits. SHAPE is written as in Python: "2, 3" or "3," or "".
array() {
    perl -e '
        my ($file, $type, $shape, @values) = @ARGV;
        my %letter = (f4 => "f<", f8 => "d<", i4 => "l<", i8 => "q<", u1 => "C", f2 => "S<");
        my $order = $type eq "u1" ? "|" : "<";
        my $head = "{\x27descr\x27: \x27$order$type\x27, \x27fortran_order\x27: False, \x27shape\x27: ($shape), }";
        $head .= " " x (63 - (10 + length $head) % 64) . "\n";
        open my $f, ">:raw", $file or die "$file: $!";
        print $f "\x93NUMPY\x01\x00", pack("S<", length $head), $head,
            map { pack $letter{$type}, $_ } @values;
        close $f or die "$file: $!"' "$@"
}

# tensors FILE NAME TYPE SHAPE "VALUE ..." [NAME TYPE SHAPE "VALUE ..."]...: writes a .safetensors file.
# TYPE is F32 or I64; SHAPE is "2,3".
tensors() {
    perl -e '
        my ($file, @rest) = @ARGV;
        my ($head, $data) = ("", "");
        while (my ($name, $type, $shape, $values) = splice @rest, 0, 4) {
            my $from = length $data;
            $data .= pack(($type eq "F32" ? "f<" : "q<") . "*", split " ", $values);
            $head .= "," if $head;
            $head .= "\"$name\":{\"dtype\":\"$type\",\"shape\":[$shape],\"data_offsets\":[$from,"
                . length($data) . "]}";
        }
        $head = "{$head}";
        $head .= " " x (-length($head) % 8);
        open my $f, ">:raw", $file or die "$file: $!";
        print $f pack("Q<", length $head), $head, $data;
        close $f or die "$file: $!"' "$@"
}

# numbers FILE [TYPE]: prints the elements of a .npy file (f4 unless told), rounded to 4 decimals, on a line.
numbers() {
    perl -e '
        my ($file, $type) = @ARGV;
        my %letter = (f4 => "f<", f8 => "d<", f2 => "S<");
        open my $f, "<:raw", $file or die "$file: $!";
        local $/;
        my $all = <$f>;
        my $data = substr $all, 10 + unpack("x8 S<", $all);
        print join(" ", map { $_ = sprintf "%.4f", $_; s/^-(0\.0000)$/$1/r } unpack "($letter{$type})*", $data), "\n"' \
        "$1" "${2:-f4}"
}

# shape FILE: prints type and shape as `attn info` shows them.
shape() {
    attn info "$1" | sed -n 's/^  .*\(\<[a-z0-9]* \[[0-9, ]*\]\).*/\1/p'
}

# try COMMAND...: runs it, prints its messages (stderr) and its exit code.
try() {
    local code=0
    "$@" >out.txt 2>err.txt || code=$?
    cat err.txt
    echo "exit $code"
}

# skip REASON: ends the script as skipped.
skip() {
    echo "skip: $1"
    exit 77
}
