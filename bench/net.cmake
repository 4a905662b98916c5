add_executable(bench_net ${CMAKE_CURRENT_LIST_DIR}/net_bench.cpp)
target_link_libraries(bench_net PRIVATE net base benchmark::benchmark_main trimtab_warnings)
