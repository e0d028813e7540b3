#!/usr/bin/env bash
# Installs a build into an empty prefix and uses it as a stranger would: find_package(attn) and
# pkg-config, C and C++17, shared and static, the examples, and the program of the README.
#
#     tests/install/run.sh BUILD
#
# Ends with a totals line.
set -uo pipefail
cd "$(dirname "$0")/../.."

build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
passed=0 failed=0

check()
{
    local what=$1
    shift
    if "$@" >"$work/output" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $what"
        sed 's/^/    /' "$work/output"
    fi
}

# The README's first C block, unchanged.
readme()
{
    awk '/^```c$/ { on = 1; next } /^```$/ { if (on) exit } on' README.md >"$work/readme.c"
    grep -q attn_forward "$work/readme.c"
}

# Every header that is installed says the same as the one in the tree; nothing else is installed.
headers()
{
    diff -r include/attn "$prefix/include/attn"
}

user_cmake()
{
    cmake -S tests/install -B "$work/user" -DCMAKE_PREFIX_PATH="$prefix" \
        -DREADME_SOURCE="$work/readme.c" -DEXAMPLES="$PWD/examples" &&
        cmake --build "$work/user" -j "${ATTN_JOBS:-$(nproc)}"
}

# $1 compiler with its standard, $2 package, $3 sources; the rest: more options of pkg-config.
user_pkg_config()
{
    local compiler=$1 package=$2 source=$3
    shift 3
    $compiler -Wall -Wextra -Wpedantic -Werror "$source" -o "$work/program" \
        $(pkg-config --cflags "$package") $(pkg-config --libs "$@" "$package") -lm &&
        LD_LIBRARY_PATH=$libraries "$work/program" "$work"
}

all_examples()
{
    local source
    for source in examples/*.c; do
        cc -std=c11 -Wall -Wextra -Werror "$source" -o "$work/example" \
            $(pkg-config --cflags --libs attn_train attn_nn attn_viz attn_io attn) -lm || return
    done
}

# The program is linked statically: it runs without the installed libraries.
program()
{
    env -u LD_LIBRARY_PATH "$prefix/bin/attn" info
}

check "install" cmake --install "$build" --prefix "$prefix"
libraries=$(dirname "$(find "$prefix" -name libattn.so)")
export PKG_CONFIG_PATH=$libraries/pkgconfig

check "headers" headers
check "README program, found" readme
check "find_package: configure and build" user_cmake
for name in small small_static readme; do
    check "find_package: $name" "$work/user/$name"
done
for name in files_cpp files_cpp_static text_cpp text_cpp_static pictures_cpp pictures_cpp_static \
    layers_cpp layers_cpp_static; do
    check "find_package: $name" "$work/user/$name" "$work"
done
check "pkg-config: C" user_pkg_config "cc -std=c11" attn tests/install/small.c
check "pkg-config: C++17" user_pkg_config "c++ -std=c++17" "attn_io attn" tests/install/files.cpp
check "pkg-config: C++17, text" user_pkg_config "c++ -std=c++17" "attn_text attn" tests/install/text.cpp
check "pkg-config: C++17, pictures" user_pkg_config "c++ -std=c++17" "attn_viz attn" \
    tests/install/pictures.cpp
check "pkg-config: C++17, layers" user_pkg_config "c++ -std=c++17" "attn_train attn_nn attn" \
    tests/install/layers.cpp
check "pkg-config: static" user_pkg_config "cc -std=c11 -static" attn tests/install/small.c --static
check "pkg-config: examples" all_examples
check "attn info" program
echo "$passed passed, $failed failed, 0 skipped"
[[ $failed -eq 0 ]]
