add_executable(bench_coordinator coordinator_bench.cpp)
target_include_directories(bench_coordinator PRIVATE ${PROJECT_SOURCE_DIR}/coordinator/src)
target_link_libraries(bench_coordinator PRIVATE coordinator benchmark::benchmark_main trimtab_warnings)

# bench/results/noise_and_drift.md.
add_executable(noise_and_drift drift/noise_and_drift.cpp)
target_include_directories(noise_and_drift PRIVATE ${PROJECT_SOURCE_DIR}/coordinator/src ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(noise_and_drift PRIVATE tuning trimtab_warnings)

# A job's searches by `unified` and by `aceso`, with the same budget.
add_executable(job_strategies unified/job_strategies.cpp unified/published_settings.cpp
                              ${PROJECT_SOURCE_DIR}/tests/tuner/split_world.cpp ${PROJECT_SOURCE_DIR}/tests/tuner/world.cpp)
target_include_directories(job_strategies PRIVATE ${PROJECT_SOURCE_DIR}/coordinator/src)
target_link_libraries(job_strategies PRIVATE simulation tuning tuner schema_published schema_store trimtab_warnings)
target_compile_definitions(job_strategies PRIVATE TRIMTAB_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

# One coordinator process under the load of many agents: agents_load --help.
set(agents_load_dir ${CMAKE_CURRENT_LIST_DIR}/agents_load)
add_executable(agents_load)
foreach(part agents_load coordinator_process cost_load daemon_metrics daemon_process load_agent load_certificates load_run
             metric_scraper)
  target_sources(agents_load PRIVATE ${agents_load_dir}/${part}.cpp)
endforeach()
target_include_directories(agents_load PRIVATE ${PROJECT_SOURCE_DIR}/agent/src ${CMAKE_CURRENT_LIST_DIR})
target_link_libraries(agents_load PRIVATE agent net schema_store schema_wire CLI11::CLI11 fmt::fmt
                                          trimtab_warnings)
add_dependencies(agents_load trimtab-coordinator)
if(TRIMTAB_TESTS)
  add_test(NAME agents_load COMMAND agents_load --agents 50 --rate 10 --seconds 5 --kill-at 2 --scrape-interval 1
    --most-growth-mib 20)
  set_tests_properties(agents_load PROPERTIES TIMEOUT 120)
endif()

# Jobs with knobs of their own for bench/own_knobs/beside_optuna.py.
add_executable(own_knob_jobs own_knobs/own_knob_jobs.cpp ${PROJECT_SOURCE_DIR}/tests/coordinator/fake_world.cpp
                             ${PROJECT_SOURCE_DIR}/tests/coordinator/transcripts/handled.cpp)
target_include_directories(own_knob_jobs PRIVATE ${PROJECT_SOURCE_DIR}/coordinator/src ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(own_knob_jobs PRIVATE coordinator nlohmann_json::nlohmann_json trimtab_warnings)
