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

foreach(unit ${ATTUNE_UNITS})
  string(REPLACE "." "_" name ${unit})
  add_test(NAME sanitize.${unit} COMMAND ${sanitized}/tests/test_${name})
  set_tests_properties(sanitize.${unit} PROPERTIES LABELS sanitize FIXTURES_REQUIRED sanitized)
endforeach()
# What these compile is in a cache by then: compiling is the run-time compiler's work, and takes longer in here.
foreach(unit cuda.drawn cuda.harness cuda.shipped cuda.stages cuda.units evidence.verify gate.zoo_cuda)
  set_tests_properties(sanitize.${unit} PROPERTIES DEPENDS ${unit})
endforeach()
# The longest begin first, so that none is left over at the end.
set_tests_properties(sanitize.evolve.engine sanitize.cli.evolve sanitize.reference.judge PROPERTIES COST 800)

file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/fuzz_*.c)
foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^fuzz_" "" name ${name})
  add_test(NAME fuzz.${name} COMMAND ${PROJECT_SOURCE_DIR}/tools/fuzz.sh ${sanitized}/fuzz/fuzz_${name}
    ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name} ${sanitized}/fuzz/${name})
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz FIXTURES_REQUIRED sanitized)
endforeach()
