# attune._fast, which python/attune/fast.py loads where it is there: built for the stable interface of CPython, so that
# one serves every version from 3.9 on. It needs Python.h of any from 3.10 on, and nothing else; where that is not found,
# the package does without.
set(ATTUNE_PYTHON_INCLUDE "" CACHE PATH "The folder of Python.h; empty: that of python3")
set(python_include "${ATTUNE_PYTHON_INCLUDE}")
if(NOT python_include)
  execute_process(COMMAND python3 -c "import sysconfig; print(sysconfig.get_paths()['include'])"
    OUTPUT_VARIABLE python_include OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(python_version 0)
if(EXISTS ${python_include}/patchlevel.h)
  file(STRINGS ${python_include}/patchlevel.h python_version REGEX "define PY_VERSION ")
  string(REGEX REPLACE ".*\"([0-9]+[.][0-9]+).*" "\\1" python_version "${python_version}")
endif()
# What a sanitizer is in needs an interpreter that has it too.
if(python_version VERSION_GREATER_EQUAL 3.10 AND NOT ATTUNE_SANITIZE)
  add_library(attune_fast MODULE python/fast.c python/fast_tensors.c)
  target_link_libraries(attune_fast PRIVATE attune_flags)
  target_include_directories(attune_fast SYSTEM PRIVATE ${python_include})
  set_target_properties(attune_fast PROPERTIES PREFIX "" OUTPUT_NAME _fast SUFFIX .abi3.so)
endif()
