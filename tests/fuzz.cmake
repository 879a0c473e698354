# The fuzzers: one executable for each fuzz/fuzz_NAME.c. What reads text and files is watched for coverage.
if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "ATTUNE_FUZZ needs clang (CMAKE_C_COMPILER is ${CMAKE_C_COMPILER})")
endif()
# NOTE: watching costs a call at every comparison, so that numeric code would run twenty times slower, in the units too.
foreach(target attune_objects attune_gate_objects attune_command)
  if(TARGET ${target})
    get_target_property(watched ${target} SOURCES)
    set(readers
      "/src/evidence/|/src/wire/|/src/judge/counters|/src/stranger/object|/src/cuda/(artifact|cubin|pack)|/src/evolve/(event|ledger|mutate|rule|scan|proposer|space)")
    list(FILTER watched INCLUDE REGEX "/src/(base|core|library|report|cli)/|${readers}")
    list(FILTER watched EXCLUDE REGEX "/(half|random|threads)\\.c$")
    set_source_files_properties(${watched} DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTIES
      COMPILE_OPTIONS -fsanitize=fuzzer-no-link)
  endif()
endforeach()
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/fuzz_*.c)
foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  # The entry point has no prototype anywhere: libFuzzer only calls it.
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -Wno-missing-prototypes)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE attune_flags attune_gate_static)
  if(TARGET attune_command)
    target_link_libraries(${name} PRIVATE attune_command)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
endforeach()
