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

add_executable(autopipe_table published/autopipe_table.cpp)
target_link_libraries(autopipe_table PRIVATE tuner trimtab_warnings)
target_include_directories(autopipe_table PRIVATE ${PROJECT_SOURCE_DIR}/tuner/src)

# Against Aceso's published profile; they say so and end where it is absent.
foreach(name aceso_table aceso_variants aceso_evaluations)
  add_executable(${name} published/${name}.cpp ${PROJECT_SOURCE_DIR}/tests/tuner/aceso_peer.cpp)
  target_link_libraries(${name} PRIVATE tuner papers nlohmann_json::nlohmann_json trimtab_warnings)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tuner ${PROJECT_SOURCE_DIR}/tuner/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE TRIMTAB_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
endforeach()

add_executable(aceso_measured published/aceso_measured.cpp ${PROJECT_SOURCE_DIR}/tests/tuner/aceso_peer.cpp)
target_link_libraries(aceso_measured PRIVATE tuner papers schema_published nlohmann_json::nlohmann_json trimtab_warnings)
target_include_directories(aceso_measured PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(aceso_measured PRIVATE TRIMTAB_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

add_executable(oases_table published/oases_table.cpp)
foreach(name cbc chains published)
  target_sources(oases_table PRIVATE ${PROJECT_SOURCE_DIR}/tests/tuner/oases/${name}.cpp)
endforeach()
target_link_libraries(oases_table PRIVATE tuner papers schema_published nlohmann_json::nlohmann_json trimtab_warnings)
target_include_directories(oases_table PRIVATE ${PROJECT_SOURCE_DIR}/tuner ${PROJECT_SOURCE_DIR}/tuner/src ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(oases_table PRIVATE TRIMTAB_OASES_DATA="${PROJECT_SOURCE_DIR}/tests/tuner/oases")

# Against Galvatron's published profiles; it says so and ends where they are absent.
foreach(name galvatron_table galvatron_measured)
  add_executable(${name} published/${name}.cpp ${PROJECT_SOURCE_DIR}/tests/tuner/galvatron/peer.cpp)
  target_link_libraries(${name} PRIVATE tuner papers schema_published nlohmann_json::nlohmann_json trimtab_warnings)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tuner ${PROJECT_SOURCE_DIR}/tuner/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE TRIMTAB_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
endforeach()

# H3T's solvers on analytic layers, and the same layers as a job's documents.
add_executable(h3t_table published/h3t_table.cpp ${PROJECT_SOURCE_DIR}/tests/tuner/h3t/analytic_layers.cpp)
target_link_libraries(h3t_table PRIVATE tuner papers trimtab_warnings)
add_executable(h3t_documents published/h3t_documents.cpp ${PROJECT_SOURCE_DIR}/tests/tuner/h3t/analytic_documents.cpp
                             ${PROJECT_SOURCE_DIR}/tests/tuner/h3t/analytic_layers.cpp)
target_link_libraries(h3t_documents PRIVATE tuner schema_store trimtab_warnings)
foreach(name h3t_table h3t_documents)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tuner ${PROJECT_SOURCE_DIR}/tuner/src)
endforeach()

# `unified` beside every other strategy, and what each family of knobs brings it.
add_executable(unified_table unified/unified_table.cpp unified/unified_rows.cpp unified/published_settings.cpp
                             ${PROJECT_SOURCE_DIR}/tests/tuner/split_world.cpp ${PROJECT_SOURCE_DIR}/tests/tuner/world.cpp)
target_link_libraries(unified_table PRIVATE tuner papers schema_published trimtab_warnings)
target_compile_definitions(unified_table PRIVATE TRIMTAB_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

# Two fingerprints: measuring all, or probes and what near hardware knows.
add_executable(near_hardware costs/near_hardware.cpp ${PROJECT_SOURCE_DIR}/tests/tuner/world.cpp)
target_link_libraries(near_hardware PRIVATE tuner trimtab_warnings)
target_include_directories(near_hardware PRIVATE ${PROJECT_SOURCE_DIR}/tuner/src)

# Predictions of launch-bound and compute-bound steps against a simulation of hosts' and devices' queues.
add_executable(two_clocks costs/two_clocks.cpp ${PROJECT_SOURCE_DIR}/tests/tuner/world.cpp)
target_link_libraries(two_clocks PRIVATE tuner trimtab_warnings)
target_include_directories(two_clocks PRIVATE ${PROJECT_SOURCE_DIR}/tuner/src)
