# What goes into the wheel of the Python package (pyproject.toml), below the package's own folder: the libraries by the
# names that they are loaded by, the command, jansson, which libattune-gate looks for beside itself, and attune._fast. Device sources
# and shipped wisdom are inside libattune. With ATTUNE_WHEEL_NVRTC, common.pack beside them.
#
# ATTUNE_LINKER, a list, replaces the compiler where it links: `python;-m;ziglang;cc;-target;x86_64-linux-gnu.2.28` gives
# programs that older systems can load, of the same objects that everything else here is made of.
if(ATTUNE_LINKER)
  list(JOIN ATTUNE_LINKER " " linker)
  set(CMAKE_C_CREATE_SHARED_LIBRARY "${linker} <LINK_FLAGS> -shared <SONAME_FLAG><TARGET_SONAME> -o <TARGET> <OBJECTS> <LINK_LIBRARIES>")
  set(CMAKE_C_CREATE_SHARED_MODULE "${linker} <LINK_FLAGS> -shared -Wl,-z,undefs -o <TARGET> <OBJECTS> <LINK_LIBRARIES>")
  set(CMAKE_C_LINK_EXECUTABLE "${linker} <LINK_FLAGS> -no-pie -o <TARGET> <OBJECTS> <LINK_LIBRARIES>")
endif()
set_target_properties(attune_shared attune_gate_shared PROPERTIES VERSION ${ATTUNE_SOVERSION} INSTALL_RPATH "$ORIGIN")
install(TARGETS attune_shared attune_gate_shared LIBRARY DESTINATION attune/lib COMPONENT wheel NAMELINK_SKIP)
install(TARGETS attune RUNTIME DESTINATION attune/bin COMPONENT wheel)
if(TARGET attune_fast)
  install(TARGETS attune_fast LIBRARY DESTINATION attune COMPONENT wheel)
endif()
add_custom_target(attune_wheel DEPENDS attune_shared attune_gate_shared attune $<TARGET_NAME_IF_EXISTS:attune_fast>)
if(ATTUNE_WHEEL_NVRTC) # a path: with it, the kernels of common problems are compiled ahead
  set(pack ${PROJECT_BINARY_DIR}/common.pack)
  file(STRINGS ${PROJECT_SOURCE_DIR}/python/common.txt problems REGEX "^[^#]")
  add_custom_command(OUTPUT ${pack} VERBATIM
    COMMAND ${CMAKE_COMMAND} -E env ATTUNE_NVRTC=${ATTUNE_WHEEL_NVRTC} ATTUNE_CACHE=${PROJECT_BINARY_DIR}/kernels
            $<TARGET_FILE:attune> export ${problems} --arch 90a --configs 1 -o ${pack}
    DEPENDS attune ${PROJECT_SOURCE_DIR}/python/common.txt)
  add_custom_target(attune_common_pack DEPENDS ${pack})
  add_dependencies(attune_wheel attune_common_pack)
  install(FILES ${pack} DESTINATION attune/lib COMPONENT wheel)
endif()
if(jansson_soname)
  install(FILES ${jansson_file} DESTINATION attune/lib COMPONENT wheel RENAME ${jansson_soname})
endif()
foreach(package libjansson4 zlib1g)
  if(EXISTS /usr/share/doc/${package}/copyright)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION attune/lib COMPONENT wheel RENAME ${package}.copyright)
  endif()
endforeach()
