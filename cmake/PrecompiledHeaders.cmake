# Headers of the standard library (and Catch2's, in tests) that most files include are parsed once for each kind of target, not in each of
# a thousand files. Public headers are checked alone (all_verify_interface_header_sets) without this, and the preset tsan builds all of it
# without: there a file that lacks an include, or copies beyond bounds, fails the build.
option(TRIMTAB_PRECOMPILED_HEADERS "Parse the standard library's headers once, not in every file" ON)
set(TRIMTAB_PRECOMPILED
    <algorithm> <array> <chrono> <cstdint> <filesystem> <functional> <map> <memory> <optional> <set> <span> <string> <string_view> <utility>
    <variant> <vector>)

# precompiled_headers(OWNER TYPE HEADER...): what targets of this directory and of those below reuse. TYPE, STATIC or EXECUTABLE, decides
# between -fPIC and -fPIE, and a precompiled header holds for one of them.
function(precompiled_headers owner type)
  if(NOT TRIMTAB_PRECOMPILED_HEADERS)
    return()
  endif()
  set(source ${CMAKE_BINARY_DIR}/generated/${owner}.cpp)
  if(type STREQUAL EXECUTABLE)
    file(CONFIGURE OUTPUT ${source} CONTENT "int main() {}\n")
    add_executable(${owner} EXCLUDE_FROM_ALL ${source})
  else()
    file(CONFIGURE OUTPUT ${source} CONTENT "\n")
    add_library(${owner} ${type} EXCLUDE_FROM_ALL ${source})
  endif()
  target_link_libraries(${owner} PRIVATE trimtab_warnings)  # -Wpedantic decides a predefined macro
  target_precompile_headers(${owner} PRIVATE ${ARGN})
endfunction()

function(reuse_precompiled_headers target owner)
  if(NOT TARGET ${owner})
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
  # g++ 12 does not know precompiled headers for a system's, and warns of bounds inside std::string's own copying (see Toolchain.cmake).
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread>)
endfunction()
