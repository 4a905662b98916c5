# A target's sources compiled in groups of some 4,000 lines, whose headers are parsed once: a build from nothing takes less than half
# the time, one after an edit of a file longer. scripts/setup turns it on in a build directory that it makes; a directory keeps what it
# has. Without it each file is compiled alone, so a file that lacks an include fails the presets debug and tsan.
# The largest such groups take 1.6 GiB, and four are compiled at a time: a machine with less than 15 GiB has groups of half the size.
option(TRIMTAB_GROUPS "Compile sources in groups: shorter from nothing, longer after an edit" OFF)
set(trimtab_group_lines 4000)
if(trimtab_memory_mib LESS 15000)
  set(trimtab_group_lines 2000)
endif()
set(TRIMTAB_GROUP_LINES ${trimtab_group_lines} CACHE STRING "Most lines of a group, of which no file is longer")
if(TRIMTAB_GROUPS)
  find_program(TRIMTAB_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
endif()

# group_sources(RESULT TARGET SOURCES ... INCLUDES ...): the C++ files below this directory or elsewhere in the project as files that
# include them, by cmake/source_groups.py. INCLUDES: where headers are looked for, beside the layers' own.
function(group_sources result target)
  cmake_parse_arguments(G "" "" "SOURCES;INCLUDES" ${ARGN})
  if(NOT TRIMTAB_GROUPS)
    set(${result} ${G_SOURCES} PARENT_SCOPE)
    return()
  endif()
  file(GLOB includes ${PROJECT_SOURCE_DIR}/*/include ${PROJECT_SOURCE_DIR}/collectors/*/include)
  list(APPEND includes ${G_INCLUDES} ${CMAKE_CURRENT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  list(JOIN includes "," includes)
  set(grouped ${G_SOURCES})
  list(FILTER grouped INCLUDE REGEX "\\.cpp$")
  list(REMOVE_ITEM G_SOURCES ${grouped})
  execute_process(
    COMMAND ${TRIMTAB_PYTHON} ${PROJECT_SOURCE_DIR}/cmake/source_groups.py ${PROJECT_SOURCE_DIR} ${TRIMTAB_GROUP_LINES} "${includes}"
      ${grouped}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE groups OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" groups "${groups}")
  set(number 0)
  foreach(group IN LISTS groups)
    math(EXPR number "${number} + 1")
    set(file ${CMAKE_CURRENT_BINARY_DIR}/groups/${target}_${number}.cpp)
    string(REPLACE "|" "\n" text "${group}")
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}\n" @ONLY)
    # In a group no file is the compiler's main file, in which alone it lets a class hold what an unnamed namespace declares.
    set_source_files_properties(${file} PROPERTIES INCLUDE_DIRECTORIES ${PROJECT_SOURCE_DIR}
      COMPILE_OPTIONS $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    list(APPEND G_SOURCES ${file})
  endforeach()
  set(${result} ${G_SOURCES} PARENT_SCOPE)
endfunction()
