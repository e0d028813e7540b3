# Installs headers, libraries, attnConfig.cmake and the pkg-config files.

set(installed attn_static attn_shared)
set(headers include/attn/attn.h)
if(ATTN_IO)
    list(APPEND installed attn_io_static attn_io_shared)
    list(APPEND headers include/attn/io.h)
endif()
if(ATTN_VIZ)
    list(APPEND installed attn_viz_static attn_viz_shared)
    list(APPEND headers include/attn/viz.h)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/attn)
install(TARGETS ${installed} EXPORT attnTargets)
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/attn)
install(EXPORT attnTargets NAMESPACE attn:: DESTINATION ${package_dir})

configure_package_config_file(cmake/attnConfig.cmake.in attnConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(attnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attnConfig.cmake ${PROJECT_BINARY_DIR}/attnConfigVersion.cmake
        DESTINATION ${package_dir})

# Relative to the folder the .pc file lies in, so that an installed tree may be moved.
file(RELATIVE_PATH pc_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
set(packages attn)
if(ATTN_IO)
    list(APPEND packages attn_io)
endif()
if(ATTN_VIZ)
    list(APPEND packages attn_viz)
endif()
foreach(package IN LISTS packages)
    configure_file(cmake/${package}.pc.in ${package}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
