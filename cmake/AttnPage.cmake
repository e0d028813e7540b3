# The script and the style of HTML pages as C, so that the library needs no files when it runs: bytes,
# and their SHA-256, which the page's content policy names.

function(attn_page result)
    set(source ${PROJECT_BINARY_DIR}/viz_page.c)
    set(text "/* Made by cmake/AttnPage.cmake. */\n#include \"src/viz/page.h\"\n")
    foreach(file ${ARGN})
        get_filename_component(file ${file} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
        get_filename_component(name ${file} EXT)
        string(SUBSTRING ${name} 1 -1 name)
        file(READ ${file} bytes HEX)
        file(SHA256 ${file} hash)
        foreach(value bytes hash)
            string(REGEX REPLACE "(..)" "0x\\1," ${value} "${${value}}")
        endforeach()
        string(APPEND text
            "static const unsigned char ${name}_bytes[] = {\n${bytes}};\n"
            "const attn__asset attn__page_${name} = {${name}_bytes, sizeof ${name}_bytes, {${hash}}};\n")
    endforeach()
    file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
    set(${result} ${source} PARENT_SCOPE)
endfunction()
