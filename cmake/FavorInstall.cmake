# Installs library, tool, headers, the CMake package (find_package(favor)) and the pkg-config file.
include(CMakePackageConfigHelpers)
set(favor_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/favor)

install(TARGETS favor EXPORT favor-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(FAVOR_BUILD_TOOL)
  install(TARGETS favor_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY include/favor DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT favor-targets NAMESPACE favor:: DESTINATION ${favor_cmake_dir})

configure_package_config_file(cmake/favor-config.cmake.in ${PROJECT_BINARY_DIR}/favor-config.cmake
                              INSTALL_DESTINATION ${favor_cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/favor-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES cmake/FindSentencePiece.cmake ${PROJECT_BINARY_DIR}/favor-config.cmake
              ${PROJECT_BINARY_DIR}/favor-config-version.cmake DESTINATION ${favor_cmake_dir})

if(FAVOR_CUDA)
  set(favor_pc_cuda "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
endif()
# Relative to the file itself: `cmake --install --prefix` decides where that is.
file(RELATIVE_PATH favor_pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/favor.pc.in ${PROJECT_BINARY_DIR}/favor.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/favor.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
