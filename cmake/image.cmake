# Kernels built ahead: kernels/cuda/NAME.image.cu, which needs more than NVRTC can give (CUTLASS's headers), becomes
# libattune-NAME.fatbin, code for every architecture, a file beside the library, which knows its digest (src/cuda/image.h).
# Without nvcc or without the headers there is no image, and ATTUNE_IMAGES, which the catalogue asks, stays empty. Run as
# a script, this file does what nvcc does not.
set(ATTUNE_IMAGE_ARCHS sm_80 sm_86 sm_89 sm_90 sm_100 sm_120)

if(NOT CMAKE_SCRIPT_MODE_FILE)
  find_program(ATTUNE_NVCC nvcc PATHS /usr/local/cuda/bin)
  execute_process(COMMAND python3 -c "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    OUTPUT_VARIABLE python_packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_path(ATTUNE_CUTLASS_INCLUDE cutlass/gemm/threadblock/default_mma.h
    HINTS $ENV{ATTUNE_CUTLASS_INCLUDE}
    PATHS ${PROJECT_BINARY_DIR}/deps/cutlass ${PROJECT_SOURCE_DIR}/build/deps/cutlass ${python_packages}
    PATH_SUFFIXES cutlass_library/source/include NO_CMAKE_SYSTEM_PATH)
  mark_as_advanced(ATTUNE_NVCC ATTUNE_CUTLASS_INCLUDE)

  # attune_image(NAME): kernels/cuda/NAME.image.cu to NAME.fatbin. CUTLASS's code for sm_80 is compiled to PTX once; only
  # the assembler runs for each architecture. NOTE: nvcc keeps the empty tag objects of the headers ("cute::_",
  # "std::in_place") as device globals, and attune refuses code with device globals. No code uses them: they are taken
  # out of the PTX, and if one were used, the assembler would miss it.
  function(attune_image name)
    set(source ${PROJECT_SOURCE_DIR}/kernels/cuda/${name}.image.cu)
    set(base ${PROJECT_BINARY_DIR}/images/${name})
    set(image ${PROJECT_BINARY_DIR}/lib/libattune-${name}.fatbin)
    list(JOIN ATTUNE_IMAGE_ARCHS "," archs)
    file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/device/*.cuh ${PROJECT_SOURCE_DIR}/kernels/cuda/*.h)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/images ${PROJECT_BINARY_DIR}/lib)
    add_custom_command(OUTPUT ${image}
      COMMAND ${ATTUNE_NVCC} -std=c++17 -ptx -arch=compute_80 --expt-relaxed-constexpr
        -DATTUNE_ARGS_MAPS=4 -DATTUNE_ARGS_ROLES=12
        -I ${PROJECT_SOURCE_DIR}/include -I ${PROJECT_SOURCE_DIR}/kernels/cuda -isystem ${ATTUNE_CUTLASS_INCLUDE}
        ${source} -o ${base}.all.ptx
      COMMAND ${CMAKE_COMMAND} -DPTX=${base}.all.ptx -DOUTPUT=${base}.ptx -P ${PROJECT_SOURCE_DIR}/cmake/image.cmake
      COMMAND ${ATTUNE_NVCC} -fatbin --no-compress --threads 2 -gencode "arch=compute_80,code=[${archs},compute_80]"
        ${base}.ptx -o ${image}
      DEPENDS ${source} ${headers} ${PROJECT_SOURCE_DIR}/include/attune/args.h ${PROJECT_SOURCE_DIR}/cmake/image.cmake
      COMMENT "Building libattune-${name}.fatbin for ${archs}" VERBATIM)
  endfunction()

  # attune_list_images(OUTPUT NAME...): a C file that defines at_cuda_images[] (src/cuda/image.h).
  function(attune_list_images output)
    set(ATTUNE_IMAGE_FILES "")
    foreach(name ${ARGN})
      attune_image(${name})
      list(APPEND ATTUNE_IMAGE_FILES ${PROJECT_BINARY_DIR}/lib/libattune-${name}.fatbin)
    endforeach()
    string(REPLACE ";" "|" joined "${ATTUNE_IMAGE_FILES}")
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} "-DIMAGES=${joined}" -P ${PROJECT_SOURCE_DIR}/cmake/image.cmake
      DEPENDS ${ATTUNE_IMAGE_FILES} ${PROJECT_SOURCE_DIR}/cmake/image.cmake VERBATIM)
    set(ATTUNE_IMAGE_FILES ${ATTUNE_IMAGE_FILES} PARENT_SCOPE)
  endfunction()

  set(ATTUNE_IMAGES "")
  set(why "")
  if(NOT ATTUNE_IMAGES_AHEAD)
    set(why "ATTUNE_IMAGES_AHEAD is off")
  elseif(ATTUNE_SANITIZE)
    set(why "a sanitizer's build does without")
  elseif(NOT ATTUNE_NVCC)
    set(why "no nvcc")
  elseif(NOT ATTUNE_CUTLASS_INCLUDE)
    set(why "no CUTLASS headers: pip install nvidia-cutlass, or -DATTUNE_CUTLASS_INCLUDE=")
  else()
    list(APPEND ATTUNE_IMAGES cutlass)
  endif()
  if(why)
    message(STATUS "kernel cutlass is left out: ${why}")
  endif()
  set(ATTUNE_CUDA_IMAGES ${PROJECT_BINARY_DIR}/cuda_images.c)
  attune_list_images(${ATTUNE_CUDA_IMAGES} ${ATTUNE_IMAGES})
  return()
endif()

if(PTX)
  file(READ ${PTX} text)
  string(REGEX REPLACE "\n\\.global \\.align 1 \\.b8 [A-Za-z0-9_$]+(\\[1\\])?;" "" text "${text}")
  file(WRITE ${OUTPUT} "${text}")
  return()
endif()

string(REPLACE "|" ";" IMAGES "${IMAGES}")
set(rows "")
foreach(file ${IMAGES})
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "^libattune-" "" name ${name})
  file(SHA256 ${file} digest)
  string(APPEND rows "    {\"${name}\", \"${digest}\"},\n")
endforeach()
file(WRITE ${OUTPUT} "/* Written by cmake/image.cmake. */\n#include \"cuda/image.h\"\n
const at_cuda_image at_cuda_images[] = {\n${rows}    {0, 0},\n};\n")
