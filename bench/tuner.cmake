add_executable(bench_tuner tuner_bench.cpp)
target_link_libraries(bench_tuner PRIVATE tuner benchmark::benchmark_main trimtab_warnings)
# The inner loop of a search is below the public headers.
target_include_directories(bench_tuner PRIVATE ${PROJECT_SOURCE_DIR}/tuner/src)
