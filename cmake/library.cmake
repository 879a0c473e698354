# libattune: base ... gate, and the kernels. One set of objects makes the static library, which executables and tests
# link with jansson's static one, and the shared library, which uses jansson's shared one.
set(ATTUNE_ROOMS base core reference cpu cuda measure library peers wire stranger worker judge evidence gate)
set(ATTUNE_SOURCES ${ATTUNE_CPU_DESCRIPTORS} ${ATTUNE_CUDA_DESCRIPTORS} ${ATTUNE_CUDA_EMBEDDED} ${ATTUNE_CPU_EMBEDDED}
  ${ATTUNE_CUDA_IMAGES} ${ATTUNE_PUBLIC_EMBEDDED})
foreach(room ${ATTUNE_ROOMS})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/*.c)
  list(FILTER sources EXCLUDE REGEX "\\.kernel\\.c$")
  list(APPEND ATTUNE_SOURCES ${sources})
endforeach()

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

add_library(attune_objects OBJECT ${ATTUNE_SOURCES})
target_link_libraries(attune_objects PRIVATE attune_flags)
# The catalogue's rows of kernels that are built ahead, where they could be.
foreach(image ${ATTUNE_IMAGES})
  string(TOUPPER ${image} name)
  set_property(SOURCE ${CMAKE_SOURCE_DIR}/src/library/catalogue.c APPEND PROPERTY
    COMPILE_DEFINITIONS ATTUNE_IMAGE_${name}=1)
endforeach()

add_library(attune_static STATIC $<TARGET_OBJECTS:attune_objects> ${ATTUNE_KERNEL_OBJECTS})
set_target_properties(attune_static PROPERTIES OUTPUT_NAME attune)
target_link_libraries(attune_static PUBLIC Threads::Threads m ${CMAKE_DL_LIBS} ${JANSSON_STATIC})

add_library(attune_shared SHARED $<TARGET_OBJECTS:attune_objects> ${ATTUNE_KERNEL_OBJECTS})
set_target_properties(attune_shared PROPERTIES OUTPUT_NAME attune VERSION ${PROJECT_VERSION} SOVERSION 0)
target_link_libraries(attune_shared PRIVATE attune_flags Threads::Threads m ${CMAKE_DL_LIBS} ${JANSSON_LINK_LIBRARIES})

# The build folder can be carried as it is: jansson lies beside the library, which looks there first.
file(REAL_PATH ${JANSSON_LINK_LIBRARIES} jansson_file)
get_filename_component(jansson_name ${jansson_file} NAME)
string(REGEX MATCH "^libjansson\\.so\\.[0-9]+" jansson_soname ${jansson_name})
if(jansson_soname)
  add_custom_command(TARGET attune_shared POST_BUILD VERBATIM
    COMMAND ${CMAKE_COMMAND} -E copy_if_different ${jansson_file} ${CMAKE_BINARY_DIR}/lib/${jansson_soname})
endif()
set_target_properties(attune_shared PROPERTIES BUILD_RPATH "$ORIGIN")
