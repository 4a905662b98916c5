# Compiler, linker and warning settings, the same for every target.

# ccache and mold are used where they are installed; the build is the same without them. Paths are made relative for
# ccache, so that presets and worktrees share what they compile alike. It believes the compiler's own list of what a file includes, which
# spares it a run of the preprocessor; precompiled headers need the two kinds of sloppiness: no file here reads __DATE__ or __TIME__.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(trimtab_ccache env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${trimtab_ccache})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${trimtab_ccache})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()

# g++ looks for what it can free each time its memory has grown by a third, from 128 MiB on: a tenth of a group's time. With 8 GiB
# there is room for half a gigabyte in each of four compilers.
cmake_host_system_information(RESULT trimtab_memory_mib QUERY TOTAL_PHYSICAL_MEMORY)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND trimtab_memory_mib GREATER 7000)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>)
endif()

set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_C_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1")

add_library(trimtab_warnings INTERFACE)
target_compile_options(trimtab_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -Wconversion
  -Wno-sign-conversion -Wimplicit-fallthrough
  # g++ 12 warns of overlap inside std::string's own copying (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(TRIMTAB_WARNINGS_ARE_ERRORS)
  target_compile_options(trimtab_warnings INTERFACE -Werror)
endif()

# libgcc comes with every glibc, and as an archive it asks for a newer one than programs may (tests/packaging/test_glibc.py).
if(TRIMTAB_PORTABLE)
  add_link_options(-static-libstdc++ -s)
endif()

if(TRIMTAB_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
elseif(TRIMTAB_SANITIZE STREQUAL "quick")
  # Compiles in 40 % of the time. Left out is what AddressSanitizer sees itself where it does harm, and what clang looks for in parsers.
  add_compile_options(-Og -fsanitize=address,undefined -fno-sanitize=null,alignment,object-size,vptr -fno-omit-frame-pointer
                      -fno-sanitize-recover=undefined -Wno-maybe-uninitialized)
  add_link_options(-fsanitize=address,undefined)
elseif(TRIMTAB_SANITIZE STREQUAL "thread")
  # gcc's TSan does not model atomic_thread_fence, which Asio uses.
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
  add_link_options(-fsanitize=thread)
elseif(NOT TRIMTAB_SANITIZE STREQUAL "")
  message(FATAL_ERROR "TRIMTAB_SANITIZE must be empty, address, quick or thread, but it is '${TRIMTAB_SANITIZE}'")
endif()

if(TRIMTAB_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "TRIMTAB_FUZZ needs clang, but the compiler is ${CMAKE_CXX_COMPILER_ID}: use the preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
endif()
