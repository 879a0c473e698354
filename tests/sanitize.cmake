# A second build inside this one: clang, sanitizers, fuzzers. It also shows that clang takes the whole tree.
set(sanitized ${CMAKE_BINARY_DIR}/sanitize)
find_program(CLANG NAMES clang-14 clang)
if(NOT CLANG)
  message(WARNING "no clang: the sanitizer and fuzzer tests will fail; tools/install-deps.sh test brings it")
endif()
add_test(NAME sanitize.build COMMAND ${CMAKE_SOURCE_DIR}/tools/sanitized-build.sh ${CMAKE_SOURCE_DIR} ${sanitized})
set_tests_properties(sanitize.build PROPERTIES TIMEOUT 900 LABELS sanitize FIXTURES_SETUP sanitized COST 2000
  PROCESSORS ${ATTUNE_PROCESSORS})
add_test(NAME sanitize.units COMMAND ${CMAKE_CTEST_COMMAND} --test-dir ${sanitized} -L unit --output-on-failure
  --no-tests=error --no-label-summary)
set_tests_properties(sanitize.units PROPERTIES TIMEOUT 900 LABELS sanitize FIXTURES_REQUIRED sanitized COST 1500
  PROCESSORS ${ATTUNE_PROCESSORS})

file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/fuzz_*.c)
foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^fuzz_" "" name ${name})
  add_test(NAME fuzz.${name} COMMAND ${CMAKE_SOURCE_DIR}/tools/fuzz.sh ${sanitized}/fuzz/fuzz_${name}
    ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name} ${sanitized}/fuzz/${name})
  set_tests_properties(fuzz.${name} PROPERTIES TIMEOUT 120 LABELS fuzz FIXTURES_REQUIRED sanitized)
endforeach()
