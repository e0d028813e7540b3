# Libraries of others. Each one that is missing is named together with what to do about it.

set(io_dependencies "")

function(attn_missing what package option)
    message(FATAL_ERROR
        "${what} was not found. On Debian: apt-get install ${package} (or run scripts/deps.sh). "
        "To build without it: -D${option}=OFF.")
endfunction()

if(ATTN_IO)
    if(NOT PKG_CONFIG_FOUND)
        attn_missing("pkg-config" pkg-config ATTN_IO)
    endif()
    foreach(module jansson libzip zlib)
        string(TOUPPER ATTN_${module} prefix)
        pkg_check_modules(${prefix} QUIET IMPORTED_TARGET ${module})
        if(NOT ${prefix}_FOUND)
            set(package_jansson libjansson-dev)
            set(package_libzip libzip-dev)
            set(package_zlib zlib1g-dev)
            attn_missing("${module} (files: npy, npz, safetensors)" ${package_${module}} ATTN_IO)
        endif()
        list(APPEND io_dependencies PkgConfig::${prefix})
    endforeach()
endif()

if(ATTN_TESTS)
    find_path(CMOCKA_INCLUDE_DIR cmocka.h)
    find_library(CMOCKA_LIBRARY cmocka)
    if(NOT CMOCKA_INCLUDE_DIR OR NOT CMOCKA_LIBRARY)
        attn_missing("cmocka (tests)" libcmocka-dev ATTN_TESTS)
    endif()
endif()
