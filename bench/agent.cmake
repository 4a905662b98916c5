# tests/coordinator/recorded_probes is made with it.
add_executable(probe_noise ${CMAKE_CURRENT_LIST_DIR}/probe_noise.cpp)
target_include_directories(probe_noise PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../agent/src)
target_link_libraries(probe_noise PRIVATE agent trimtab_warnings)
