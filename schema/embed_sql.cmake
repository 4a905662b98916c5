# embed_sql(TARGET target HEADER name.hpp SYMBOL kName FILES a.sql b.sql): writes a header that holds the files' texts, in
# order, as `inline constexpr const char* kName[]` of namespace trimtab, and lets the target include it.
function(embed_sql)
  cmake_parse_arguments(E "" "TARGET;HEADER;SYMBOL" "FILES" ${ARGN})
  set(EMBEDDED_TEXTS "")
  foreach(file IN LISTS E_FILES)
    cmake_path(ABSOLUTE_PATH file)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    string(APPEND EMBEDDED_TEXTS "    R\"sql(${text})sql\",\n")
  endforeach()
  set(EMBEDDED_SYMBOL ${E_SYMBOL})
  set(directory ${CMAKE_CURRENT_BINARY_DIR}/embedded)
  file(CONFIGURE OUTPUT ${directory}/${E_HEADER} @ONLY CONTENT
    "#pragma once\n\nnamespace trimtab {\n\ninline constexpr const char* @EMBEDDED_SYMBOL@[] = {\n@EMBEDDED_TEXTS@};\n\n}  // namespace trimtab\n")
  target_include_directories(${E_TARGET} PRIVATE ${directory})
endfunction()
