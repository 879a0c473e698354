# Files inside the library. attune_embed(OUTPUT SYMBOL NAME=FILE...) writes a C file that defines
#     const at_embedded SYMBOL[]: {name, data, size} for each file in order, ended by a NULL name
# (src/base/embedded.h). It is written anew when one of the files changes. Run as a script, it is what does the writing.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  function(attune_embed output symbol)
    set(files "")
    foreach(pair ${ARGN})
      string(REGEX REPLACE "^[^=]*=" "" file ${pair})
      list(APPEND files ${file})
    endforeach()
    string(REPLACE ";" "|" pairs "${ARGN}")
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DSYMBOL=${symbol} "-DPAIRS=${pairs}"
        -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
      DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  endfunction()
  return()
endif()

string(REPLACE "|" ";" PAIRS "${PAIRS}")
set(arrays "")
set(rows "")
set(index 0)
foreach(pair ${PAIRS})
  string(REGEX MATCH "^([^=]*)=(.*)$" matched ${pair})
  set(name ${CMAKE_MATCH_1})
  file(READ ${CMAKE_MATCH_2} hex HEX)
  string(LENGTH "${hex}" size)
  math(EXPR size "${size} / 2")
  # The zero at the end lets text be used as a string; it is not counted.
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "static const unsigned char data_${index}[] = {\n${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", data_${index}, ${size}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT} "/* Written by cmake/embed.cmake. */\n#include \"base/embedded.h\"\n\n${arrays}
extern const at_embedded ${SYMBOL}[];\nconst at_embedded ${SYMBOL}[] = {\n${rows}    {0, 0, 0},\n};\n")
