# What `cmake --install` puts where, and the package files. They find the rest relative to themselves, so that an
# installed tree may be moved, and `cmake --install --prefix` may name another place than the configured one.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(ATTUNE_INSTALLED attune_static attune_shared)
set(ATTUNE_PACKAGES attune attune-static)
if(TARGET attune_gate_static)
  list(APPEND ATTUNE_INSTALLED attune_gate_static attune_gate_shared)
  list(APPEND ATTUNE_PACKAGES attune-gate attune-gate-static)
  install(DIRECTORY python/attune DESTINATION ${CMAKE_INSTALL_DATADIR}/attune/python FILES_MATCHING PATTERN *.py PATTERN py.typed)
  if(TARGET attune_fast)
    list(APPEND ATTUNE_INSTALLED attune_fast)
  endif()
endif()
install(TARGETS ${ATTUNE_INSTALLED}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${ATTUNE_IMAGE_FILES} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/attune DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET attune)
  install(TARGETS attune RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  list(APPEND ATTUNE_INSTALLED attune attune_manual)
endif()
# All that is installed, and nothing else: what `make install` builds.
add_custom_target(attune_package DEPENDS ${ATTUNE_INSTALLED})

set(ATTUNE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/attune)
configure_package_config_file(cmake/package/attuneConfig.cmake.in ${PROJECT_BINARY_DIR}/package/attuneConfig.cmake
  INSTALL_DESTINATION ${ATTUNE_PACKAGE_DIR}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/attuneConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/attuneConfig.cmake ${PROJECT_BINARY_DIR}/package/attuneConfigVersion.cmake
  DESTINATION ${ATTUNE_PACKAGE_DIR})

file(RELATIVE_PATH ATTUNE_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" ATTUNE_PC_PREFIX "${ATTUNE_PC_PREFIX}")
foreach(name ${ATTUNE_PACKAGES})
  configure_file(cmake/package/${name}.pc.in ${PROJECT_BINARY_DIR}/package/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/package/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
