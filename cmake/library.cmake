# Two libraries. libattune is what an engine links: base ... library and the kernels; it needs libc, libm, threads and
# dlopen. libattune-gate is what judges kernels: peers ... gate; it reads and writes JSON. The static libraries are made
# of their own rooms' objects; libattune-gate.so holds libattune's too, whose internal names no shared library exports,
# so a program that is a worker links it alone.
set(ATTUNE_SOURCES ${ATTUNE_CPU_DESCRIPTORS} ${ATTUNE_CUDA_DESCRIPTORS} ${ATTUNE_CUDA_EMBEDDED} ${ATTUNE_CPU_EMBEDDED}
  ${ATTUNE_CUDA_IMAGES} ${ATTUNE_CPU_CODES})
set(ATTUNE_GATE_SOURCES ${ATTUNE_PUBLIC_EMBEDDED})
function(attune_add_rooms list)
  foreach(room ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/*.c)
    list(FILTER sources EXCLUDE REGEX "\\.kernel\\.c$")
    list(APPEND ${list} ${sources})
  endforeach()
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()
attune_add_rooms(ATTUNE_SOURCES base core reference cpu cuda measure library)
attune_add_rooms(ATTUNE_GATE_SOURCES peers wire stranger worker judge evidence gate)

# Shipped wisdom, proven rows only.
file(GLOB wisdom CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/wisdom/*.wisdom)
set(pairs "")
foreach(file ${wisdom})
  get_filename_component(name ${file} NAME)
  list(APPEND pairs "${name}=${file}")
endforeach()
attune_embed(${CMAKE_BINARY_DIR}/embedded/wisdom.c at_embedded_wisdom ${pairs})
list(APPEND ATTUNE_SOURCES ${CMAKE_BINARY_DIR}/embedded/wisdom.c)

# The reference's products: unrolled, and nothing fused, so that all tiers give the same bits.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/reference/product.c PROPERTIES
  COMPILE_OPTIONS "-O3;-ffp-contract=off")
# The vector work around a peer's GEMMs: FMA contraction and unrolling, as a good peer would have.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/peers/vector.c PROPERTIES COMPILE_OPTIONS "-O3;-ffp-contract=fast")

add_library(attune_objects OBJECT ${ATTUNE_SOURCES})
target_link_libraries(attune_objects PRIVATE attune_flags)
add_library(attune_gate_objects OBJECT ${ATTUNE_GATE_SOURCES})
target_link_libraries(attune_gate_objects PRIVATE attune_flags)
target_include_directories(attune_gate_objects PRIVATE ${JANSSON_INCLUDE_DIRS})
# The catalogue's rows of kernels that are built ahead, where they could be.
foreach(image ${ATTUNE_IMAGES})
  string(TOUPPER ${image} name)
  set_property(SOURCE ${CMAKE_SOURCE_DIR}/src/library/catalogue.c APPEND PROPERTY
    COMPILE_DEFINITIONS ATTUNE_IMAGE_${name}=1)
endforeach()
set(attune_all_objects $<TARGET_OBJECTS:attune_objects> ${ATTUNE_KERNEL_OBJECTS})

add_library(attune_static STATIC ${attune_all_objects})
set_target_properties(attune_static PROPERTIES OUTPUT_NAME attune)
target_link_libraries(attune_static PUBLIC Threads::Threads m ${CMAKE_DL_LIBS})
add_library(attune_gate_static STATIC $<TARGET_OBJECTS:attune_gate_objects>)
set_target_properties(attune_gate_static PROPERTIES OUTPUT_NAME attune-gate)
target_include_directories(attune_gate_static INTERFACE ${JANSSON_INCLUDE_DIRS})
# zlib, static: evidence, and ledgers of searches, are kept compressed.
find_library(ZLIB_STATIC libz.a REQUIRED)
target_link_libraries(attune_gate_static PUBLIC attune_static ${JANSSON_STATIC} ${ZLIB_STATIC})

add_library(attune_shared SHARED ${attune_all_objects})
set_target_properties(attune_shared PROPERTIES OUTPUT_NAME attune)
target_link_libraries(attune_shared PRIVATE attune_flags Threads::Threads m ${CMAKE_DL_LIBS})
add_library(attune_gate_shared SHARED $<TARGET_OBJECTS:attune_gate_objects> ${attune_all_objects})
set_target_properties(attune_gate_shared PROPERTIES OUTPUT_NAME attune-gate BUILD_RPATH "$ORIGIN")
target_link_libraries(attune_gate_shared PRIVATE attune_flags Threads::Threads m ${CMAKE_DL_LIBS}
  ${JANSSON_LINK_LIBRARIES} ${ZLIB_STATIC})
target_link_options(attune_gate_shared PRIVATE LINKER:--exclude-libs,libz.a)
# Before 1.0 a minor version may break binaries: each has an ABI, and so a name for the loader, of its own.
set_target_properties(attune_shared attune_gate_shared PROPERTIES VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

# The build folder can be carried as it is: jansson lies beside libattune-gate.so, which looks there first.
file(REAL_PATH ${JANSSON_LINK_LIBRARIES} jansson_file)
get_filename_component(jansson_name ${jansson_file} NAME)
string(REGEX MATCH "^libjansson\\.so\\.[0-9]+" jansson_soname ${jansson_name})
if(jansson_soname)
  add_custom_command(TARGET attune_gate_shared POST_BUILD VERBATIM
    COMMAND ${CMAKE_COMMAND} -E copy_if_different ${jansson_file} ${CMAKE_BINARY_DIR}/lib/${jansson_soname})
endif()
