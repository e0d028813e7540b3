# Compiler flags, and the functions that give them to targets.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

# STYLE.md section 6. Ours alone: never part of a target's interface.
set(attn_warnings -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wvla -Wstrict-prototypes
    -Wmissing-prototypes -Wcast-qual -Wwrite-strings -Wdouble-promotion)
if(ATTN_WERROR)
    list(APPEND attn_warnings -Werror)
endif()

# Compilers differ in what they fuse when allowed to; fused steps are asked for by name.
set(attn_flags ${attn_warnings} -ffp-contract=off)
set(attn_link_flags "")

if(ATTN_SANITIZE)
    list(APPEND attn_flags -fsanitize=${ATTN_SANITIZE} -fno-omit-frame-pointer
         -fno-sanitize-recover=all)
    list(APPEND attn_link_flags -fsanitize=${ATTN_SANITIZE})
    # Vectors that are arrays, every element checked: five minutes at -O1, a quarter of one at -O0.
    set_source_files_properties(src/kernels/kernels_scalar.c PROPERTIES COMPILE_OPTIONS -O0)
endif()
if(ATTN_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "ATTN_FUZZ needs clang: cmake --preset fuzz")
    endif()
    list(APPEND attn_flags -fsanitize=fuzzer-no-link)
endif()

# Flags for code that sees only public headers.
function(attn_public target)
    target_compile_options(${target} PRIVATE ${attn_flags})
    target_link_options(${target} PRIVATE ${attn_link_flags})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
endfunction()

# Flags for the library's own code: includes are written from the root.
function(attn_internal target)
    target_compile_options(${target} PRIVATE ${attn_flags})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
    set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET hidden
                          POSITION_INDEPENDENT_CODE ON)
endfunction()

# ${name}_static and ${name}_shared from one set of objects; installed as attn::${export} (shared;
# attn::attn where export is empty) and attn::${export}_static.
function(attn_library name objects export)
    if(NOT export)
        set(export attn)
    endif()
    add_library(${name}_static STATIC $<TARGET_OBJECTS:${objects}>)
    add_library(${name}_shared SHARED $<TARGET_OBJECTS:${objects}>)
    foreach(kind static shared)
        target_include_directories(${name}_${kind} INTERFACE
            $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
        target_link_options(${name}_${kind} PRIVATE ${attn_link_flags})
        set_target_properties(${name}_${kind} PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE C)
    endforeach()
    set_target_properties(${name}_static PROPERTIES EXPORT_NAME ${export}_static)
    set_target_properties(${name}_shared PROPERTIES EXPORT_NAME ${export}
                          VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                          INSTALL_RPATH "$ORIGIN") # they find one another wherever they are installed
    if(NOT ATTN_SANITIZE AND NOT ATTN_FUZZ)
        target_link_options(${name}_shared PRIVATE "LINKER:--no-undefined")
    endif()
    add_library(attn::${export} ALIAS ${name}_shared)
    add_library(attn::${export}_static ALIAS ${name}_static)
endfunction()

# The library attn_${name} beside attn: headers and libraries of others that it needs, sources.
function(attn_component name dependencies)
    add_library(attn_${name}_objects OBJECT ${ARGN})
    attn_internal(attn_${name}_objects)
    target_link_libraries(attn_${name}_objects PRIVATE ${dependencies})
    attn_library(attn_${name} attn_${name}_objects ${name})
    target_link_libraries(attn_${name}_static PUBLIC attn_static PRIVATE ${dependencies} m)
    target_link_libraries(attn_${name}_shared PUBLIC attn_shared PRIVATE ${dependencies} m)

    set(symbols ${PROJECT_SOURCE_DIR}/cmake/attn_${name}.map)
    target_sources(attn_${name}_shared PRIVATE $<TARGET_OBJECTS:attn_base_objects>)
    target_link_libraries(attn_${name}_shared PRIVATE Threads::Threads)
    target_link_options(attn_${name}_shared PRIVATE "LINKER:--version-script=${symbols}")
    set_target_properties(attn_${name}_shared PROPERTIES LINK_DEPENDS ${symbols})
endfunction()

# Sets ${result} to 1 if the source includes the header of attn_${name}, or of its inside, else 0.
function(attn_uses name source result)
    set(headers ${name})
    if(name STREQUAL nn)
        set(headers "(nn|generate)")
    endif()
    file(STRINGS ${source} lines
         REGEX "#include [<\"](include/)?attn/${headers}\\.h[>\"]|#include \"src/${name}/")
    if(lines)
        set(${result} 1 PARENT_SCOPE)
    else()
        set(${result} 0 PARENT_SCOPE)
    endif()
endfunction()
