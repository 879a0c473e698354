# attune, the command.
set(ATTUNE_COMMAND_SOURCES "")
foreach(room evolve report cli)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*.c)
  list(APPEND ATTUNE_COMMAND_SOURCES ${sources})
endforeach()
# What `attune new` writes.
file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/new/*/*)
file(GLOB hidden CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/new/*/.clangd)
list(APPEND files ${hidden})
list(REMOVE_DUPLICATES files)
set(embedded "")
foreach(file ${files})
  file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/examples/new ${file})
  list(APPEND embedded ${name}=${file})
endforeach()
attune_embed(${PROJECT_BINARY_DIR}/embedded/new.c at_new_files ${embedded})
list(APPEND ATTUNE_COMMAND_SOURCES ${PROJECT_BINARY_DIR}/embedded/new.c)
list(REMOVE_ITEM ATTUNE_COMMAND_SOURCES ${PROJECT_SOURCE_DIR}/src/cli/main.c)
if(ATTUNE_COMMAND_SOURCES)
  # Everything but main(), so that tests can link it.
  add_library(attune_command STATIC ${ATTUNE_COMMAND_SOURCES})
  target_link_libraries(attune_command PUBLIC attune_gate_static PRIVATE attune_flags)
endif()
# Gives older evidence its digests of code; built when asked for.
add_executable(carry_evidence EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tools/carry_evidence.c)
target_link_libraries(carry_evidence PRIVATE attune_flags attune_gate_static)
if(EXISTS ${PROJECT_SOURCE_DIR}/src/cli/main.c)
  add_executable(attune ${PROJECT_SOURCE_DIR}/src/cli/main.c)
  target_link_libraries(attune PRIVATE attune_flags attune_command)
  # The manual page, as the command writes it from its own tables.
  set(ATTUNE_MANUAL ${PROJECT_BINARY_DIR}/attune.1)
  add_custom_command(OUTPUT ${ATTUNE_MANUAL} COMMAND attune help --man > ${ATTUNE_MANUAL} DEPENDS attune VERBATIM)
  add_custom_target(attune_manual ALL DEPENDS ${ATTUNE_MANUAL})
endif()

# bash finds the completion of a command by the file's name.
include(GNUInstallDirs)
install(FILES ${PROJECT_SOURCE_DIR}/completions/attune.bash
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME attune)
if(TARGET attune_manual)
  install(FILES ${ATTUNE_MANUAL} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
