# What makes a fault of ours harder to use, for all that runs beside other people's work (tests/packaging/test_hardening.py reads it from what
# was built). Sanitizers bring checks of their own, and FORTIFY hides theirs.
#   stack protector, stack clash   a frame that was overwritten, or that jumps over the guard page, ends the process
#   FORTIFY                        copies of known sizes are checked; needs optimization
#   CET (x86-64)                   indirect jumps land on marked places only, where the loader and all libraries say so, too
#   relro, now                     no table of functions can be written after the start
# Programs also name no folder of who built them: the same source gives the same bytes anywhere (scripts/release).
add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
if(TRIMTAB_SANITIZE STREQUAL "" AND NOT TRIMTAB_FUZZ)
  set(hardening -fstack-protector-strong -fstack-clash-protection -Wformat -Werror=format-security)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    list(APPEND hardening -fcf-protection=full)
  elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    list(APPEND hardening -mbranch-protection=standard)
  endif()
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${hardening}>"
                      "$<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<CONFIG:Release>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>"
                      "$<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<CONFIG:Release>>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>")
endif()
