# CPU kernels: kernels/cpu/NAME.c is the descriptor, NAME.kernel.c the source, compiled once for each ISA tier with
# ATTUNE_TIER(symbol) giving the symbol its tier's suffix. src/cpu/*.kernel.c are built the same way.
include(CheckCCompilerFlag)
set(ATTUNE_TIERS baseline)
set(ATTUNE_TIER_FLAGS_baseline "")
# Tiers of single instructions are for sources that name them, by the file's name; what has no code of its own for such a
# tier runs there as the one below.
set(ATTUNE_TIERS_OF_dots "")
set(ATTUNE_TIERS_OF_cpu_bf16 "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(ATTUNE_TIER_FLAGS_avx2 -mavx2 -mfma -mf16c -mtune=haswell)
  set(ATTUNE_TIER_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c
    -mprefer-vector-width=512 -mtune=icelake-server)
  set(ATTUNE_TIER_FLAGS_avx512_bf16 ${ATTUNE_TIER_FLAGS_avx512} -mavx512bf16)
  set(ATTUNE_TIER_FLAGS_amx ${ATTUNE_TIER_FLAGS_avx512_bf16} -mamx-tile -mamx-bf16)
  list(APPEND ATTUNE_TIERS avx2 avx512)
  set(ATTUNE_TIERS_OF_dots avx512_bf16 amx)
  set(ATTUNE_TIERS_OF_cpu_bf16 avx512_bf16 amx)
  set(ATTUNE_TIERS_OF_cpu_decode ${ATTUNE_TIERS} amx)
endif()

file(GLOB ATTUNE_CPU_DESCRIPTORS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cpu/*.c)
file(GLOB ATTUNE_CPU_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cpu/*.kernel.c)
list(REMOVE_ITEM ATTUNE_CPU_DESCRIPTORS ${ATTUNE_CPU_SOURCES})
file(GLOB ATTUNE_CPU_TIERED CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cpu/*.kernel.c)
list(APPEND ATTUNE_CPU_SOURCES ${ATTUNE_CPU_TIERED})
file(GLOB ATTUNE_CUDA_DESCRIPTORS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.c)

# Unrolled code full of sanitizers' checks takes minutes to compile.
set(ATTUNE_TIER_EFFORT -O3)
if(ATTUNE_SANITIZE)
  set(ATTUNE_TIER_EFFORT -O1 -DATTUNE_ROLLED)
endif()

foreach(source ${ATTUNE_CPU_SOURCES})
  get_filename_component(name ${source} NAME_WE)
  set(tiers ${ATTUNE_TIERS})
  if(DEFINED ATTUNE_TIERS_OF_${name})
    set(tiers ${ATTUNE_TIERS_OF_${name}})
  endif()
  foreach(tier ${tiers})
    list(APPEND ATTUNE_CPU_SOURCES_${tier} ${source})
  endforeach()
endforeach()

set(ATTUNE_KERNEL_OBJECTS "")
foreach(tier ${ATTUNE_TIERS} avx512_bf16 amx)
  if(ATTUNE_CPU_SOURCES_${tier})
    add_library(attune_cpu_${tier} OBJECT ${ATTUNE_CPU_SOURCES_${tier}})
    target_link_libraries(attune_cpu_${tier} PRIVATE attune_flags)
    # As options: CMake drops definitions of macros with arguments.
    target_compile_options(attune_cpu_${tier} PRIVATE ${ATTUNE_TIER_EFFORT} -ffp-contract=fast
      ${ATTUNE_TIER_FLAGS_${tier}}
      "-DATTUNE_TIER(symbol)=symbol##_${tier}" -DATTUNE_TIER_${tier}=1)
    if(ATTUNE_SANITIZE MATCHES "undefined")
      # NOTE: clang 14 needs minutes for this check in fully unrolled panels, and seconds for all the others together.
      target_compile_options(attune_cpu_${tier} PRIVATE -fno-sanitize=signed-integer-overflow)
    endif()
    list(APPEND ATTUNE_KERNEL_OBJECTS $<TARGET_OBJECTS:attune_cpu_${tier}>)
    list(APPEND ATTUNE_TIER_TARGETS attune_cpu_${tier})
  endif()
endforeach()

# What the tiers' objects hold, as digests: evidence of CPU kernels is bound to their machine code.
add_executable(code_digests ${PROJECT_SOURCE_DIR}/tools/code_digests.c)
foreach(name elf elf_digest digest status text file random)
  target_sources(code_digests PRIVATE ${PROJECT_SOURCE_DIR}/src/base/${name}.c)
endforeach()
target_link_libraries(code_digests PRIVATE attune_flags m)
set(ATTUNE_CPU_CODES ${PROJECT_BINARY_DIR}/cpu_codes.c)
add_custom_command(OUTPUT ${ATTUNE_CPU_CODES}
  COMMAND code_digests ${ATTUNE_CPU_CODES} ${ATTUNE_KERNEL_OBJECTS}
  DEPENDS code_digests ${ATTUNE_KERNEL_OBJECTS} COMMAND_EXPAND_LISTS VERBATIM)

# CUDA kernels: sources and headers travel inside the library under the names that #include and descriptors use.
include(cmake/embed.cmake)
file(GLOB ATTUNE_CUDA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu)
list(FILTER ATTUNE_CUDA_SOURCES EXCLUDE REGEX "\\.image\\.cu$")
file(GLOB ATTUNE_CUDA_HEADERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/device/*.cuh)
set(embedded attune/args.h=${PROJECT_SOURCE_DIR}/include/attune/args.h)
foreach(file ${ATTUNE_CUDA_HEADERS} ${ATTUNE_CUDA_SOURCES})
  file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/kernels/cuda ${file})
  list(APPEND embedded ${name}=${file})
endforeach()
set(ATTUNE_CUDA_EMBEDDED ${PROJECT_BINARY_DIR}/cuda_sources.c)
attune_embed(${ATTUNE_CUDA_EMBEDDED} at_cuda_sources ${embedded})
include(cmake/image.cmake)

# CPU kernels' sources with the headers of their folder, for the digests in evidence.
file(GLOB ATTUNE_CPU_HEADERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cpu/device/*.h)
set(embedded "")
foreach(file ${ATTUNE_CPU_HEADERS} ${ATTUNE_CPU_SOURCES})
  if(file MATCHES "/kernels/cpu/")
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/kernels/cpu ${file})
    list(APPEND embedded ${name}=${file})
  endif()
endforeach()
set(ATTUNE_CPU_EMBEDDED ${PROJECT_BINARY_DIR}/cpu_sources.c)
attune_embed(${ATTUNE_CPU_EMBEDDED} at_cpu_sources ${embedded})

# The public headers, for what strangers bring: their descriptors are compiled where attune may not be installed.
set(embedded "")
foreach(name args attune kernel)
  list(APPEND embedded ${name}.h=${PROJECT_SOURCE_DIR}/include/attune/${name}.h)
endforeach()
set(ATTUNE_PUBLIC_EMBEDDED ${PROJECT_BINARY_DIR}/public_headers.c)
attune_embed(${ATTUNE_PUBLIC_EMBEDDED} at_public_headers ${embedded})
