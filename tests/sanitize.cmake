# A second build inside this one: clang, sanitizers, fuzzers. It also shows that clang takes the whole tree. Its units are
# tests of this project, one each, so that they share the processors with everything else.
set(sanitized ${PROJECT_BINARY_DIR}/sanitize)
find_program(CLANG NAMES clang-14 clang)
if(NOT CLANG)
  message(WARNING "no clang: the sanitizer and fuzzer tests will fail; tools/install-deps.sh test brings it")
endif()
add_test(NAME sanitize.build COMMAND ${PROJECT_SOURCE_DIR}/tools/sanitized-build.sh ${PROJECT_SOURCE_DIR} ${sanitized})
set_tests_properties(sanitize.build PROPERTIES LABELS sanitize FIXTURES_SETUP sanitized COST 2000
  PROCESSORS ${ATTUNE_PROCESSORS})

# What these tests see is the run-time compiler's work or other processes', in which there are no sanitizers.
set(unsanitized cuda.drawn cuda.shipped cuda.units gate.zoo gate.zoo_cuda worker.python_worker)
foreach(unit ${ATTUNE_UNITS})
  if(NOT unit IN_LIST unsanitized)
    string(REPLACE "." "_" name ${unit})
    add_test(NAME sanitize.${unit} COMMAND ${sanitized}/tests/test_${name})
    set_tests_properties(sanitize.${unit} PROPERTIES LABELS sanitize FIXTURES_REQUIRED sanitized)
  endif()
endforeach()
# The longest begin first, so that none is left over at the end.
set_tests_properties(sanitize.evolve.engine sanitize.cli.evolve sanitize.kernels.cpu_tiled
  sanitize.kernels.cpu_decode_judged PROPERTIES COST 800)

file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/fuzz_*.c)
foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^fuzz_" "" name ${name})
  add_test(NAME fuzz.${name} COMMAND ${PROJECT_SOURCE_DIR}/tools/fuzz.sh ${sanitized}/fuzz/fuzz_${name}
    ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name} ${sanitized}/fuzz/${name})
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz FIXTURES_REQUIRED sanitized)
endforeach()
