# What every target of ours is compiled with.
add_library(attune_flags INTERFACE)
target_compile_options(attune_flags INTERFACE
  -Wall -Wextra $<$<BOOL:${PROJECT_IS_TOP_LEVEL}>:-Werror> -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith
  -fvisibility=hidden -fno-math-errno)
target_compile_definitions(attune_flags INTERFACE _GNU_SOURCE)
target_include_directories(attune_flags INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
if(ATTUNE_SANITIZE)
  target_compile_options(attune_flags INTERFACE -fsanitize=${ATTUNE_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(attune_flags INTERFACE -fsanitize=${ATTUNE_SANITIZE})
  # Tests that repeat one thing over many draws take a sample: sanitizers look for what any draw shows.
  target_compile_definitions(attune_flags INTERFACE ATTUNE_SANITIZED=1)
endif()
