# Toolchain: Debian's cross compiler, programs run under qemu's user mode.
# ATTN_AARCH64_ROOT: folder with usr/include and usr/lib/aarch64-linux-gnu of libraries that have no
# cross package (cmocka); scripts/check.sh makes one.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)

set(ATTN_AARCH64_ROOT "" CACHE PATH "Root of further AArch64 libraries")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ATTN_AARCH64_ROOT)
if(ATTN_AARCH64_ROOT)
    list(PREPEND CMAKE_FIND_ROOT_PATH ${ATTN_AARCH64_ROOT})
    list(APPEND CMAKE_CROSSCOMPILING_EMULATOR
         -E LD_LIBRARY_PATH=${ATTN_AARCH64_ROOT}/usr/lib/aarch64-linux-gnu)
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
