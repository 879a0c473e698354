# What needs a GPU: built everywhere, run only by `make test-gpu`. ${PROJECT_BINARY_DIR}/gpu holds all that it takes, and
# may be carried to a machine that has a GPU and nothing else: attune, the device tests with cmocka beside them, the
# zoo's device kernels, and the benches of the ladder.
set(ATTUNE_GPU_DIR ${PROJECT_BINARY_DIR}/gpu)
file(GLOB gpu_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/gpu/test_*.c)

# units.cu and the device headers it includes, under the names they are included by.
file(GLOB gpu_units CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/gpu/*.cu)
set(embedded attune/args.h=${PROJECT_SOURCE_DIR}/include/attune/args.h)
foreach(file ${ATTUNE_CUDA_HEADERS})
  file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/kernels/cuda ${file})
  list(APPEND embedded ${name}=${file})
endforeach()
list(APPEND embedded wgmma.cu=${PROJECT_SOURCE_DIR}/kernels/cuda/wgmma.cu) # which hopper.cu takes apart
foreach(file ${gpu_units})
  get_filename_component(name ${file} NAME)
  list(APPEND embedded ${name}=${file})
endforeach()
attune_embed(${CMAKE_CURRENT_BINARY_DIR}/gpu_units.c at_gpu_units ${embedded})
target_sources(test_cuda_units PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/gpu_units.c) # which compiles them, without a GPU

find_library(CMOCKA_SHARED NAMES cmocka REQUIRED)
get_filename_component(CMOCKA_REAL ${CMOCKA_SHARED} REALPATH)
foreach(source ${gpu_sources})
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^test_" "" name ${name})
  add_executable(test_gpu_${name} ${source} ${CMAKE_CURRENT_BINARY_DIR}/gpu_units.c)
  target_link_libraries(test_gpu_${name} PRIVATE attune_flags attune_command attune_static ${CMOCKA_SHARED})
  target_include_directories(test_gpu_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  set_target_properties(test_gpu_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${ATTUNE_GPU_DIR} BUILD_RPATH "$ORIGIN"
    LINK_FLAGS "-Wl,-s")
  list(APPEND gpu_targets test_gpu_${name})
endforeach()
find_library(JANSSON_SHARED NAMES libjansson.so.4 REQUIRED)
get_filename_component(JANSSON_SHARED_REAL ${JANSSON_SHARED} REALPATH)
set(copy_images "")
if(ATTUNE_IMAGE_FILES)
  set(copy_images COMMAND ${CMAKE_COMMAND} -E copy_if_different ${ATTUNE_IMAGE_FILES} ${ATTUNE_GPU_DIR})
endif()
if(TARGET attune_fast)
  list(APPEND copy_images COMMAND ${CMAKE_STRIP} -o ${ATTUNE_GPU_DIR}/_fast.abi3.so $<TARGET_FILE:attune_fast>)
  list(APPEND gpu_targets attune_fast)
endif()
add_custom_target(gpu_bundle ALL
  ${copy_images}
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${ATTUNE_GPU_DIR}/zoo
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${ATTUNE_ZOO_DIR}/cuda ${ATTUNE_GPU_DIR}/zoo
  COMMAND ${CMAKE_COMMAND} -E copy_if_different ${CMOCKA_REAL} ${ATTUNE_GPU_DIR}/libcmocka.so.0
  COMMAND ${CMAKE_STRIP} -o ${ATTUNE_GPU_DIR}/attune $<TARGET_FILE:attune>
  COMMAND ${CMAKE_STRIP} -o ${ATTUNE_GPU_DIR}/stages $<TARGET_FILE:bench_stages>
  COMMAND ${CMAKE_STRIP} -o ${ATTUNE_GPU_DIR}/plan_times $<TARGET_FILE:bench_plan_times>
  COMMAND ${CMAKE_STRIP} -o ${ATTUNE_GPU_DIR}/launches $<TARGET_FILE:bench_launches>
  COMMAND ${CMAKE_STRIP} -o ${ATTUNE_GPU_DIR}/instrument $<TARGET_FILE:bench_instrument>
  COMMAND ${CMAKE_STRIP} -o ${ATTUNE_GPU_DIR}/$<TARGET_SONAME_FILE_NAME:attune_shared> $<TARGET_FILE:attune_shared>
  COMMAND ${CMAKE_STRIP} -o ${ATTUNE_GPU_DIR}/$<TARGET_SONAME_FILE_NAME:attune_gate_shared> $<TARGET_FILE:attune_gate_shared>
  COMMAND ${CMAKE_STRIP} -o ${ATTUNE_GPU_DIR}/serve $<TARGET_FILE:example_serve>
  COMMAND ${CMAKE_COMMAND} -E copy_if_different ${JANSSON_SHARED_REAL} ${ATTUNE_GPU_DIR}/libjansson.so.4
  DEPENDS zoo_folders attune attune_shared attune_gate_shared bench_stages bench_plan_times bench_launches bench_instrument example_serve ${gpu_targets} VERBATIM)
