# `format` rewrites our C++ sources with clang-format, `format-check` fails where they differ.
find_program(CLANG_FORMAT_PROGRAM clang-format)
if(CLANG_FORMAT_PROGRAM)
  set(list_sources "git ls-files -co --exclude-standard '*.hpp' '*.cpp' '*.h' '*.c'")
  add_custom_target(format
    COMMAND sh -c "${list_sources} | xargs ${CLANG_FORMAT_PROGRAM} -i" WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} VERBATIM)
  add_custom_target(format-check
    COMMAND sh -c "${list_sources} | xargs ${CLANG_FORMAT_PROGRAM} --dry-run -Werror"
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} VERBATIM)
endif()
