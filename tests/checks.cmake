# Style and structure: tools/checks/NAME.{py,sh} looks at the tree and ends with a status; with --self-test it looks at
# trees with planted mistakes and fails unless it finds each of them.
set(checks evidence_size include_order call_order words tidiness functions headers format cppcheck tidy docs ladder readme
  wgmma_table image_registers)
foreach(check ${checks})
  file(GLOB script ${PROJECT_SOURCE_DIR}/tools/checks/${check}.py ${PROJECT_SOURCE_DIR}/tools/checks/${check}.sh)
  add_test(NAME check.${check} COMMAND ${script} ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  add_test(NAME selftest.${check} COMMAND ${script} --self-test)
  set_tests_properties(check.${check} selftest.${check} PROPERTIES LABELS check
    ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endforeach()
# These use every processor themselves; starting them first keeps them off the end of the run.
set_tests_properties(check.tidy check.cppcheck PROPERTIES PROCESSORS ${ATTUNE_PROCESSORS} COST 1000)
# The slowest, by far, on a clean tree (it remembers what it found clean): `make lint` and CI run it, `make test` does not.
set_tests_properties(check.tidy PROPERTIES LABELS "check;tidy")
