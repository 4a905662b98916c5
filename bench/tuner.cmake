add_executable(bench_tuner tuner_bench.cpp ${PROJECT_SOURCE_DIR}/tests/tuner/gpt_world.cpp)
target_link_libraries(bench_tuner PRIVATE tuner benchmark::benchmark_main trimtab_warnings)
# The inner loop of a search is below the public headers.
target_include_directories(bench_tuner PRIVATE ${PROJECT_SOURCE_DIR}/tuner/src)

add_executable(scale_search scale_search.cpp ${PROJECT_SOURCE_DIR}/tests/tuner/gpt_world.cpp)
target_link_libraries(scale_search PRIVATE tuner trimtab_warnings)

add_executable(native_bound native_bound.cpp ${PROJECT_SOURCE_DIR}/tests/tuner/gpt_world.cpp
                            ${PROJECT_SOURCE_DIR}/tests/tuner/split_world.cpp ${PROJECT_SOURCE_DIR}/tests/tuner/world.cpp)
target_link_libraries(native_bound PRIVATE tuner trimtab_warnings)
target_include_directories(native_bound PRIVATE ${PROJECT_SOURCE_DIR}/tuner/src)

# Against Aceso's published profile; they say so and end where it is absent.
foreach(name aceso_table aceso_variants aceso_evaluations)
  add_executable(${name} ${name}.cpp ${PROJECT_SOURCE_DIR}/tests/tuner/aceso_peer.cpp)
  target_link_libraries(${name} PRIVATE tuner nlohmann_json::nlohmann_json trimtab_warnings)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tuner/src)
  target_compile_definitions(${name} PRIVATE TRIMTAB_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
endforeach()
