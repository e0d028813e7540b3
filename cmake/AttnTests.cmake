# Test programs: every tests/test_*.c is one; the other sources in tests/ are shared by all of them.
# Every tests/cli/*.sh but helpers (lib.sh) is one, given the attn program. Each ends with the line
# `N passed, N failed, N skipped`, which scripts/test.sh adds up.

file(GLOB test_sources CONFIGURE_DEPENDS tests/test_*.c)
file(GLOB support_sources CONFIGURE_DEPENDS tests/*.c)
list(FILTER support_sources EXCLUDE REGEX "/test_[^/]*$")

file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)

set(test_libraries attn_static Threads::Threads m)
foreach(component nn io text viz train)
    string(TOUPPER ATTN_${component} option)
    if(${option})
        list(PREPEND test_libraries attn_${component}_static ${${component}_dependencies})
        continue()
    endif()
    foreach(list test_sources support_sources fuzz_sources)
        foreach(source IN LISTS ${list})
            attn_uses(${component} ${source} uses)
            if(uses)
                list(REMOVE_ITEM ${list} ${source})
            endif()
        endforeach()
    endforeach()
endforeach()
if(ATTN_TESTS AND support_sources)
    add_library(attn_test_support STATIC ${support_sources})
    attn_internal(attn_test_support)
    target_include_directories(attn_test_support PUBLIC ${CMOCKA_INCLUDE_DIR})
    target_link_libraries(attn_test_support PUBLIC ${test_libraries} ${CMOCKA_LIBRARY})
    list(PREPEND test_libraries attn_test_support)
endif()

function(attn_test_program target source)
    add_executable(${target} ${source})
    attn_internal(${target})
    target_link_libraries(${target} PRIVATE ${test_libraries})
    target_link_options(${target} PRIVATE ${attn_link_flags})
    set_target_properties(${target} PROPERTIES
                          RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endfunction()

# A wrapper and arguments come from the environment when the test runs (see scripts/test.sh), so that
# one build serves every kernel set and every length of run. --cases goes only where it is understood.
set(test_shell [=[exec $ATTN_TEST_WRAPPER "$@" $ATTN_TEST_ARGS]=])

# These begin first, so that none of them is left to run alone at the end.
set(long_tests test_kernels test_bits test_contract test_gemm test_nn_pass test_differential
               test_backward_bits test_backward_pairs)

if(ATTN_TESTS)
    foreach(source IN LISTS test_sources)
        get_filename_component(name ${source} NAME_WE)
        attn_test_program(${name} ${source})
        set(shell "${test_shell}")
        file(STRINGS ${source} takes_cases REGEX "\"--cases\"")
        if(takes_cases)
            string(APPEND shell " $ATTN_TEST_CASES")
        endif()
        add_test(NAME ${name}
                 COMMAND sh -c "${shell}" sh ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${name}>
                 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
        set_tests_properties(${name} PROPERTIES TIMEOUT ${ATTN_TEST_TIMEOUT})
        if(name IN_LIST long_tests)
            set_tests_properties(${name} PROPERTIES COST 1000)
        endif()
    endforeach()

    file(GLOB cli_tests CONFIGURE_DEPENDS tests/cli/*.sh)
    list(FILTER cli_tests EXCLUDE REGEX "/lib\\.sh$")
    if(TARGET attn_program)
        foreach(script IN LISTS cli_tests)
            get_filename_component(name ${script} NAME_WE)
            add_test(NAME cli_${name} COMMAND bash ${script} $<TARGET_FILE:attn_program>
                     WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
            set_tests_properties(cli_${name} PROPERTIES TIMEOUT ${ATTN_TEST_TIMEOUT})
        endforeach()
    endif()
endif()

# Pages in a real browser, where there is one; scripts/check.sh viz_browser fetches it.
find_program(ATTN_BROWSER NAMES chromium chromium-browser google-chrome)
find_program(ATTN_PYTHON NAMES python3)
if(ATTN_TESTS AND ATTN_VIZ AND ATTN_BROWSER AND ATTN_PYTHON AND NOT ATTN_SANITIZE)
    add_test(NAME browser_viz
             COMMAND ${ATTN_PYTHON} tests/browser/viz.py ${PROJECT_BINARY_DIR}
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(browser_viz PROPERTIES TIMEOUT ${ATTN_TEST_TIMEOUT} RUN_SERIAL TRUE)
endif()

# The functions that make the corpus of models/en-de and that judge its attention.
if(ATTN_TESTS AND ATTN_PYTHON AND NOT ATTN_SANITIZE)
    add_test(NAME corpus_functions COMMAND ${ATTN_PYTHON} tests/corpus/functions.py
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    add_test(NAME alignment_figures COMMAND ${ATTN_PYTHON} tests/alignment/figures.py
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endif()

if(ATTN_FUZZ)
    foreach(source IN LISTS fuzz_sources)
        get_filename_component(name ${source} NAME_WE)
        attn_test_program(${name} ${source})
        target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    endforeach()
endif()
