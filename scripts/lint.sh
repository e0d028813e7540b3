#!/usr/bin/env bash
# Rules of the house that a compiler does not check. Each broken one is a line `rule: where`.
#
#     scripts/lint.sh BUILD       a release build of this tree, for the rules on symbols
#
# Ends with a totals line (one a rule).
set -uo pipefail
cd "$(dirname "$0")/.."

build=${1:-build}
passed=0 failed=0

# Runs a rule: a function that prints what breaks it.
rule()
{
    local found
    found=$("rule_$1" 2>&1)
    if [[ -z $found ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        sed "s/^/$1: /" <<<"$found"
    fi
}

files()
{
    git ls-files --cached --others --exclude-standard -- "$@"
}

# --- Source text -----------------------------------------------------------------------------------

# Which folders of src/ a folder may include from.
layers='
base     base
kernels  base kernels
core     base kernels core
nn       base kernels core io nn
train    base kernels core io nn text train
io       base io
text     base io text
viz      base viz
'

# Includes are written from the root, and point down the layers.
rule_layers()
{
    local file target layer allowed
    files 'src/*.[ch]' 'cli/*.[ch]' 'examples/*.[ch]' 'tests/*.[ch]' |
        xargs grep -HoE '^ *# *include +("[^"]+|<(include|attn|src|cli|examples|tests)/[^>]+)' |
        sed -E 's/: *# *include +/ /' |
        while read -r file target; do
            layer=${file%%/*}
            [[ $layer == src ]] && layer=${file#src/} && layer=${layer%%/*}
            case $layer in
            tests) allowed='"include/attn/|"src/|"tests/|<attn/' ;;
            cli) allowed='"include/attn/|<attn/|"cli/' ;;
            examples) allowed='<attn/|"[a-z_0-9]+\.h' ;; # as a stranger would write them
            *)
                allowed=$(awk -v l="$layer" '$1 == l { for (i = 2; i <= NF; i++) print $i }' \
                    <<<"$layers" | paste -sd'|')
                [[ -n $allowed ]] || echo "$file: folder '$layer' is not in the table of layers"
                allowed="\"include/attn/|\"src/($allowed)/"
                ;;
            esac
            [[ $target =~ ^($allowed) ]] || echo "$file includes ${target#[<\"]}"
        done
}

# A quoted include names a file from the root, but for public headers and examples, which have to work
# elsewhere too.
rule_include_from_root()
{
    local file target
    files '*.[ch]' ':!include' ':!examples' | xargs grep -HoE '^ *# *include +"[^"]+' |
        sed -E 's/: *# *include +"/ /' |
        while read -r file target; do
            [[ -e $target ]] || echo "$file: no file $target"
        done
}

rule_unique_names()
{
    files '*.c' '*.h' '*.cpp' '*.sh' | sed 's|.*/||' | sort | uniq -d
}

rule_length()
{
    files '*.c' '*.h' '*.cpp' | while read -r file; do
        awk -v f="$file" 'length($0) > 100 { print f ":" NR ": over 100 columns" }
            END { if (NR >= 800) print f ": " NR " lines" }' "$file"
    done
}

rule_whitespace()
{
    files '*.c' '*.h' '*.cpp' '*.sh' '*.cmake' '*.md' | xargs grep -nE "[[:space:]]+$" /dev/null
    files '*.c' '*.h' '*.cpp' '*.sh' '*.cmake' | xargs grep -nP '\t' /dev/null
}

# Neither in what builds the code nor in the code.
rule_no_fast_math()
{
    files ':!*.md' ':!*.[ch]' ':!scripts/lint.sh' |
        xargs grep -nIE -e '-f(fast|unsafe|finite|associative)-math|-Ofast' /dev/null
    files '*.[ch]' |
        xargs grep -nE -e 'pragma +(GCC|clang) +(optimize|fp +(contract|reassociate))' \
            -e 'pragma +STDC +FP_CONTRACT +ON' /dev/null
}

rule_nothing_left_to_do()
{
    files '*.c' '*.h' '*.cpp' '*.sh' '*.cmake' '*.txt' Makefile ':!scripts/lint.sh' |
        xargs grep -nwE 'TODO|FIXME|XXX|HACK' /dev/null
}

# --- Compiler --------------------------------------------------------------------------------------

rule_headers_alone()
{
    local header compiler
    for header in $(files 'include/attn/*.h'); do
        for compiler in "gcc -xc -std=c11" "g++ -xc++ -std=c++17" "clang -xc -std=c11" \
            "clang -xc++ -std=c++17 -nostdinc++"; do
            command -v "${compiler%% *}" >/dev/null || continue
            $compiler -Wall -Wextra -Wpedantic -Werror -fsyntax-only - <<<"#include \"$header\"" ||
                echo "$header with ${compiler%% *} ${compiler#*-std=}"
        done
    done
}

# --- Symbols ---------------------------------------------------------------------------------------

# Functions that the headers $@ declare.
declared()
{
    grep -hv '^ *\*' "$@" | tr '\n' ' ' | grep -oE 'ATTN_API [^();]*\(' |
        grep -oE 'attn_[a-z0-9_]+\($' | tr -d '(' | sort -u
}

exported()
{
    nm -D --defined-only "$build/lib$1.so" | awk '{ print $3 }' | sort -u
}

# A shared library exports exactly what its header declares.
rule_exports()
{
    local pair headers
    for pair in attn:attn.h "attn_nn:nn.h generate.h" attn_io:io.h attn_text:text.h attn_viz:viz.h \
        attn_train:train.h; do
        headers=(${pair#*:})
        diff <(declared "${headers[@]/#/include/attn/}") <(exported "${pair%:*}") |
            sed -nE "s/^< /declared in ${pair#*:}, not exported: /p
                     s/^> /exported by lib${pair%:*}.so, not declared: /p"
    done
}

# Outside names in a static library: "member name" lines. The archive says what the text cannot hide.
outside_names()
{
    nm -A "$build/lib$1.a" | sed -E 's/.*\.a:([^:]+\.c)\.o:/\1 /' | awk '$2 == "U" { print $1, $3 }'
}

all_outside_names()
{
    local library
    for library in attn attn_nn attn_io attn_text attn_viz attn_train; do
        outside_names "$library"
    done
}

# Memory comes from base/mem.c alone.
rule_memory()
{
    local names='malloc|calloc|realloc|reallocarray|free|aligned_alloc|posix_memalign|memalign'
    names+='|strdup|strndup|asprintf|vasprintf|getline|open_memstream'
    all_outside_names | grep -E " ($names)$" | grep -v '^mem\.c '
}

# The library does not print, end the program or look around.
rule_silent()
{
    local names='v?printf|__v?printf_chk|puts|putchar|perror|stdout|stderr|exit|_exit|_Exit|abort'
    names+='|quick_exit|atexit|(secure_)?getenv|setenv|putenv|setlocale|signal|sigaction|system'
    all_outside_names | grep -E " ($names)$"
}

# No writable globals: what the program changes lives in a context. Constant tables of pointers stand
# in .data.rel.ro, which only the loader writes.
rule_no_globals()
{
    objdump -t "$build"/libattn{,_nn,_io,_text,_viz,_train}.a |
        awk '/file format/ { member = $1 }
             $3 == "O" && $4 ~ /^(\.t?data|\.t?bss|\*COM\*)/ && $4 !~ /^\.data\.rel\.ro/ {
                 print member, $NF
             }' | sed 's/\.o: / /'
}

# --- Words -----------------------------------------------------------------------------------------

# Links between files of this repository lead somewhere.
rule_links()
{
    local file target
    files '*.md' | while read -r file; do
        grep -oE '\]\([^)#]+' "$file" | sed 's/^](//' | grep -vE '^[a-z]+:' |
            while read -r target; do
                [[ -e $(dirname "$file")/$target ]] || echo "$file: no file $target"
            done
    done
}

# docs/paper.md leads from formulas to functions and tests; all that it names between backticks and
# looks like a file, one of our functions or a test must be there.
rule_paper()
{
    local name count=0
    [[ -e docs/paper.md ]] || { echo "no docs/paper.md" && return; }
    while read -r name; do
        count=$((count + 1))
        case $name in
        */*.*:*) grep -qwF "${name##*:}" "${name%%:*}" || echo "no ${name##*:} in ${name%%:*}" ;;
        */*.*) [[ -e $name ]] || echo "no file $name" ;;
        attn_*) grep -rqwF "$name" include src || echo "no function $name" ;;
        test_*) compgen -G "tests/$name.c" >/dev/null || grep -rqwF "$name" tests ||
            echo "no test $name" ;;
        esac
    done < <(grep -oE '`[^` ]+`' docs/paper.md | tr -d '`' | sed 's/()$//' |
        grep -E '^(attn_|test_)[a-z0-9_]+$|^[a-z]+/[a-z0-9_/.]+\.[a-z]+(:[a-z0-9_]+)?$')
    [[ $count -ge 10 ]] || echo "names only $count functions, files and tests"
}

# Commands shown in README and CONTRIBUTING exist: make targets, scripts, presets, stages, examples
# and subcommands.
rule_commands()
{
    local file line word
    for file in README.md CONTRIBUTING.md; do
        awk '/^```sh$/ { on = 1; next } /^```$/ { on = 0 } on' "$file" | sed 's/ *#.*//' |
            while read -r line; do
                word=${line#* }
                word=${word%% *}
                case $line in
                make\ *) grep -q "^$word:" Makefile || echo "$file: no target: $line" ;;
                scripts/check.sh\ full | scripts/check.sh\ list) ;;
                scripts/check.sh\ *) scripts/check.sh list | grep -q "^${word#^} " ||
                    echo "$file: no stage: $line" ;;
                cmake\ --preset*) grep -q "\"${line##* }\"" CMakePresets.json ||
                    echo "$file: no preset: $line" ;;
                build/attn\ *) "$build/attn" "$word" --help >/dev/null ||
                    echo "$file: no subcommand: $line" ;;
                build/*) [[ -x $build/${line#build/} ]] || echo "$file: not built: $line" ;;
                scripts/* | tests/*) [[ -x ${line%% *} ]] || echo "$file: no script: $line" ;;
                esac
            done
    done
}

# Each mutant of tests/mutants.sh still finds the place in the source that it changes.
rule_mutants()
{
    tests/mutants.sh --places
}

for name in layers include_from_root unique_names length whitespace no_fast_math \
    nothing_left_to_do headers_alone exports memory silent no_globals links paper commands \
    mutants; do
    rule "$name"
done
echo "$passed passed, $failed failed, 0 skipped"
[[ $failed -eq 0 ]]
