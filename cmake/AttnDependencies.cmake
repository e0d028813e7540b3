# Libraries of others. Each one that is missing is named together with what to do about it.

set(io_dependencies "")
set(text_dependencies "")
set(viz_dependencies "")

function(attn_missing what package option)
    message(FATAL_ERROR
        "${what} was not found. On Debian: apt-get install ${package} (or run scripts/deps.sh). "
        "To build without it: -D${option}=OFF.")
endfunction()

# Debian packages of the pkg-config modules.
set(package_jansson libjansson-dev)
set(package_libzip libzip-dev)
set(package_zlib zlib1g-dev)
set(package_cairo libcairo2-dev)
set(package_pangocairo libpango1.0-dev)
set(package_libpng libpng-dev)
set(package_libutf8proc libutf8proc-dev)
set(package_libpcre2-8 libpcre2-dev)

# Sets ${result} to the targets of these modules. `option` leaves out what needs them, `what` says
# what that is.
function(attn_modules result option what)
    set(targets "")
    if(NOT PKG_CONFIG_FOUND)
        attn_missing("pkg-config" pkg-config ${option})
    endif()
    foreach(module ${ARGN})
        string(TOUPPER ATTN_${module} prefix)
        pkg_check_modules(${prefix} QUIET IMPORTED_TARGET ${module})
        if(NOT ${prefix}_FOUND)
            attn_missing("${module} (${what})" ${package_${module}} ${option})
        endif()
        list(APPEND targets PkgConfig::${prefix})
    endforeach()
    set(${result} ${targets} PARENT_SCOPE)
endfunction()

if(ATTN_IO)
    attn_modules(io_dependencies ATTN_IO "files: npy, npz, safetensors" jansson libzip zlib)
endif()
if(ATTN_TEXT)
    attn_modules(text_dependencies ATTN_TEXT "tokenizers" jansson libutf8proc libpcre2-8)
endif()
if(ATTN_VIZ)
    attn_modules(viz_dependencies ATTN_VIZ "pictures" cairo pangocairo libpng libutf8proc zlib)
endif()

if(ATTN_TESTS)
    find_path(CMOCKA_INCLUDE_DIR cmocka.h)
    find_library(CMOCKA_LIBRARY cmocka)
    if(NOT CMOCKA_INCLUDE_DIR OR NOT CMOCKA_LIBRARY)
        attn_missing("cmocka (tests)" libcmocka-dev ATTN_TESTS)
    endif()
endif()
