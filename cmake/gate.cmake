# libattune-gate is what judges kernels: peers ... gate; it reads and writes JSON. The static library is made of its own
# rooms' objects; libattune-gate.so holds libattune's too, whose internal names no shared library exports, so a program
# that is a worker links it alone.
set(ATTUNE_GATE_SOURCES ${ATTUNE_PUBLIC_EMBEDDED})
attune_add_rooms(ATTUNE_GATE_SOURCES peers wire stranger worker judge evidence gate)
# The vector work around a peer's GEMMs: FMA contraction and unrolling, as a good peer would have.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/peers/vector.c PROPERTIES COMPILE_OPTIONS "-O3;-ffp-contract=fast")

add_library(attune_gate_objects OBJECT ${ATTUNE_GATE_SOURCES})
target_link_libraries(attune_gate_objects PRIVATE attune_flags)
target_include_directories(attune_gate_objects PRIVATE ${JANSSON_INCLUDE_DIRS})

# zlib, static: evidence, and ledgers of searches, are kept compressed.
find_library(ZLIB_STATIC libz.a REQUIRED)
add_library(attune_gate_static STATIC $<TARGET_OBJECTS:attune_gate_objects>)
target_include_directories(attune_gate_static INTERFACE ${JANSSON_INCLUDE_DIRS})
target_link_libraries(attune_gate_static PUBLIC attune_static ${JANSSON_STATIC} ${ZLIB_STATIC})

add_library(attune_gate_shared SHARED $<TARGET_OBJECTS:attune_gate_objects> ${attune_all_objects})
set_target_properties(attune_gate_shared PROPERTIES BUILD_RPATH "$ORIGIN" VERSION ${PROJECT_VERSION} SOVERSION ${ATTUNE_SOVERSION})
target_include_directories(attune_gate_shared INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(attune_gate_shared PRIVATE attune_flags Threads::Threads m ${CMAKE_DL_LIBS}
  ${JANSSON_LINK_LIBRARIES} ${ZLIB_STATIC})
if(ATTUNE_LINKER) # zig's has no --exclude-libs
  file(WRITE ${PROJECT_BINARY_DIR}/exports.map "{ global: attune_*; local: *; };\n")
  target_link_options(attune_gate_shared PRIVATE LINKER:--version-script=${PROJECT_BINARY_DIR}/exports.map)
else()
  target_link_options(attune_gate_shared PRIVATE LINKER:--exclude-libs,libz.a)
endif()
set_target_properties(attune_gate_static attune_gate_shared PROPERTIES OUTPUT_NAME attune-gate)
add_library(attune::gate_static ALIAS attune_gate_static)
add_library(attune::gate_shared ALIAS attune_gate_shared)

# The build folder can be carried as it is: jansson lies beside libattune-gate.so, which looks there first.
file(REAL_PATH ${JANSSON_LINK_LIBRARIES} jansson_file)
get_filename_component(jansson_name ${jansson_file} NAME)
string(REGEX MATCH "^libjansson\\.so\\.[0-9]+" jansson_soname ${jansson_name})
if(jansson_soname)
  add_custom_command(TARGET attune_gate_shared POST_BUILD VERBATIM
    COMMAND ${CMAKE_COMMAND} -E copy_if_different ${jansson_file} ${PROJECT_BINARY_DIR}/lib/${jansson_soname})
endif()
