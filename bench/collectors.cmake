# The injected library as a job sees it, and the agent's end of the ring.
set(collectors_bench_dir ${CMAKE_CURRENT_LIST_DIR})
set(collectors_agent_src ${collectors_bench_dir}/../agent/src)

add_executable(bench_record_ring ${collectors_bench_dir}/record_ring_bench.cpp ${collectors_agent_src}/records/ring_reader.cpp
                          ${collectors_agent_src}/kernels/time_spans.cpp ${collectors_agent_src}/records/range_fold.cpp)
target_include_directories(bench_record_ring PRIVATE ${collectors_agent_src})
target_link_libraries(bench_record_ring PRIVATE inject base schema_record schema_types benchmark::benchmark_main
                                         trimtab_warnings)

add_executable(bench_inject ${collectors_bench_dir}/inject_bench.cpp ${collectors_agent_src}/records/ring_reader.cpp)
target_include_directories(bench_inject PRIVATE ${collectors_agent_src})
target_link_libraries(bench_inject PRIVATE base schema_record benchmark::benchmark Threads::Threads ${CMAKE_DL_LIBS}
                                           trimtab_warnings)
target_compile_definitions(bench_inject PRIVATE INJECT_LIBRARY="$<TARGET_FILE:trimtab-inject>")
add_dependencies(bench_inject trimtab-inject)
if(TARGET trimtab-nvtx)
  target_compile_definitions(bench_inject PRIVATE NVTX_SHIM="$<TARGET_FILE:trimtab-nvtx>")
  add_dependencies(bench_inject trimtab-nvtx)
endif()

add_executable(bench_nccl ${collectors_bench_dir}/nccl_bench.cpp)
target_link_libraries(bench_nccl PRIVATE nccl benchmark::benchmark Threads::Threads trimtab_warnings)

add_executable(bench_cupti_decode ${collectors_bench_dir}/cupti_decode_bench.cpp ${collectors_agent_src}/records/ring_reader.cpp)
target_include_directories(bench_cupti_decode PRIVATE ${collectors_agent_src})
target_link_libraries(bench_cupti_decode PRIVATE inject base schema_record schema_types benchmark::benchmark_main
                                                 Threads::Threads trimtab_warnings)
if(TRIMTAB_CUPTI_LIBRARY)
  target_compile_definitions(bench_cupti_decode PRIVATE REAL_CUPTI="${TRIMTAB_CUPTI_LIBRARY}")
endif()
add_executable(bench_fold ${collectors_bench_dir}/fold_bench.cpp ${collectors_bench_dir}/made_up_ring.cpp)
target_include_directories(bench_fold PRIVATE ${collectors_agent_src})
target_link_libraries(bench_fold PRIVATE agent trimtab_warnings)

# The same records through the agent's process: agent_records --help.
add_executable(agent_records ${collectors_bench_dir}/agent_records.cpp ${collectors_bench_dir}/made_up_ring.cpp)
foreach(part coordinator_process daemon_metrics daemon_process)
  target_sources(agent_records PRIVATE ${collectors_bench_dir}/agents_load/${part}.cpp)
endforeach()
target_include_directories(agent_records PRIVATE ${collectors_bench_dir})
target_link_libraries(agent_records PRIVATE base schema_record net CLI11::CLI11 fmt::fmt trimtab_warnings)
add_dependencies(agent_records trimtab-agent trimtab-coordinator)
