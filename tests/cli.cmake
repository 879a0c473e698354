# What the command's tests need beside their executables: bash's completion, scripts that call the command, and a BLAS that
# computes nothing, to see that a wrong arm is not taken for a fast one.
if(TARGET attune)
  find_program(BASH_PROGRAM bash)
  if(BASH_PROGRAM)
    add_test(NAME cli.completion COMMAND ${BASH_PROGRAM} ${CMAKE_CURRENT_SOURCE_DIR}/cli/completion.sh
      $<TARGET_FILE:attune> ${PROJECT_SOURCE_DIR}/completions/attune.bash)
    set_tests_properties(cli.completion PROPERTIES LABELS unit)
    add_test(NAME cli.scripts COMMAND ${BASH_PROGRAM} ${CMAKE_CURRENT_SOURCE_DIR}/cli/scripts.sh ${PROJECT_SOURCE_DIR}/tools)
    add_test(NAME cli.zoo COMMAND ${BASH_PROGRAM} ${CMAKE_CURRENT_SOURCE_DIR}/cli/zoo.sh ${PROJECT_SOURCE_DIR}/tools)
    add_test(NAME cli.folders COMMAND ${BASH_PROGRAM} ${CMAKE_CURRENT_SOURCE_DIR}/cli/folders.sh $<TARGET_FILE:attune>)
    add_test(NAME cli.demo COMMAND ${BASH_PROGRAM} ${CMAKE_CURRENT_SOURCE_DIR}/cli/demo.sh ${PROJECT_SOURCE_DIR}/tools
      ${PROJECT_BINARY_DIR} $<TARGET_FILE:fake_driver>)
    set_tests_properties(cli.scripts cli.zoo cli.folders cli.demo PROPERTIES LABELS unit)
    set_tests_properties(cli.folders PROPERTIES COST 300) # half a minute, not to be the last
  endif()
  # The evidence of the tree itself: broken is an error anywhere, stale is what a change of a kernel makes of it.
  add_test(NAME check.evidence COMMAND attune verify --allow-stale ${PROJECT_SOURCE_DIR}/evidence)
  set_tests_properties(check.evidence PROPERTIES LABELS check
    ENVIRONMENT ATTUNE_CACHE=${PROJECT_BINARY_DIR}/kernel-cache)
  add_library(lazy_blas MODULE cli/lazy_blas.c)
  target_link_libraries(lazy_blas PRIVATE attune_flags)
  set_target_properties(lazy_blas PROPERTIES C_VISIBILITY_PRESET default
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_dependencies(test_cli_bench lazy_blas)
endif()
