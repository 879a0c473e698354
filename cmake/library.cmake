# libattune is what an engine links: base ... library and the kernels; it needs libc, libm, threads and dlopen.
# attune::static and attune::shared are its two forms, attune::attune is the one that BUILD_SHARED_LIBS says.
set(ATTUNE_SOURCES ${ATTUNE_CPU_DESCRIPTORS} ${ATTUNE_CUDA_DESCRIPTORS} ${ATTUNE_CUDA_EMBEDDED} ${ATTUNE_CPU_EMBEDDED}
  ${ATTUNE_CUDA_IMAGES} ${ATTUNE_CPU_CODES})
function(attune_add_rooms list)
  foreach(room ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*.c)
    list(FILTER sources EXCLUDE REGEX "\\.kernel\\.c$")
    list(APPEND ${list} ${sources})
  endforeach()
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()
attune_add_rooms(ATTUNE_SOURCES base core reference cpu cuda measure library)

# Shipped wisdom, proven rows only.
file(GLOB wisdom CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/wisdom/*.wisdom)
set(pairs "")
foreach(file ${wisdom})
  get_filename_component(name ${file} NAME)
  list(APPEND pairs "${name}=${file}")
endforeach()
attune_embed(${PROJECT_BINARY_DIR}/embedded/wisdom.c at_embedded_wisdom ${pairs})
list(APPEND ATTUNE_SOURCES ${PROJECT_BINARY_DIR}/embedded/wisdom.c)

# The reference's products: unrolled, and nothing fused, so that all tiers give the same bits.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/reference/product.c PROPERTIES
  COMPILE_OPTIONS "-O3;-ffp-contract=off")

add_library(attune_objects OBJECT ${ATTUNE_SOURCES})
target_link_libraries(attune_objects PRIVATE attune_flags)
# What is written from the tiers' objects is a source here. make knows files of its own target alone; Ninja knows all.
if(CMAKE_GENERATOR MATCHES "Makefiles")
  add_dependencies(attune_objects ${ATTUNE_TIER_TARGETS})
endif()
# The catalogue's rows of kernels that are built ahead, where they could be.
foreach(image ${ATTUNE_IMAGES})
  string(TOUPPER ${image} name)
  set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/library/catalogue.c APPEND PROPERTY
    COMPILE_DEFINITIONS ATTUNE_IMAGE_${name}=1)
endforeach()
# Where images are looked for from a program's folder.
include(GNUInstallDirs)
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/cuda/image_file.c APPEND PROPERTY
  COMPILE_DEFINITIONS ATTUNE_LIBDIR="${CMAKE_INSTALL_LIBDIR}")
set(attune_all_objects $<TARGET_OBJECTS:attune_objects> ${ATTUNE_KERNEL_OBJECTS})

add_library(attune_static STATIC ${attune_all_objects})
target_link_libraries(attune_static PUBLIC Threads::Threads m ${CMAKE_DL_LIBS})
add_library(attune_shared SHARED ${attune_all_objects})
target_link_libraries(attune_shared PRIVATE attune_flags Threads::Threads m ${CMAKE_DL_LIBS})
set_target_properties(attune_static attune_shared PROPERTIES OUTPUT_NAME attune)
# Before 1.0 a minor version may break binaries: each has an ABI, and so a name for the loader, of its own.
set(ATTUNE_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set_target_properties(attune_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${ATTUNE_SOVERSION})
foreach(linkage static shared)
  target_include_directories(attune_${linkage} INTERFACE ${PROJECT_SOURCE_DIR}/include)
  add_library(attune::${linkage} ALIAS attune_${linkage})
endforeach()
if(BUILD_SHARED_LIBS)
  add_library(attune::attune ALIAS attune_shared)
else()
  add_library(attune::attune ALIAS attune_static)
endif()
