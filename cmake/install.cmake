# What `cmake --install` puts where, and the package files. They find the rest relative to themselves, so that an
# installed tree may be moved, and `cmake --install --prefix` may name another place than the configured one.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS attune_static attune_shared attune_gate_static attune_gate_shared
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/attune DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(DIRECTORY python/attune DESTINATION ${CMAKE_INSTALL_DATADIR}/attune/python FILES_MATCHING PATTERN *.py)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET attune)
  install(TARGETS attune RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(ATTUNE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/attune)
configure_package_config_file(cmake/package/attuneConfig.cmake.in ${CMAKE_BINARY_DIR}/package/attuneConfig.cmake
  INSTALL_DESTINATION ${ATTUNE_PACKAGE_DIR}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/attuneConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/attuneConfig.cmake ${CMAKE_BINARY_DIR}/package/attuneConfigVersion.cmake
  DESTINATION ${ATTUNE_PACKAGE_DIR})

file(RELATIVE_PATH ATTUNE_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" ATTUNE_PC_PREFIX "${ATTUNE_PC_PREFIX}")
foreach(name attune attune-gate)
  configure_file(cmake/package/${name}.pc.in ${CMAKE_BINARY_DIR}/package/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/package/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
