# What calibration does to predictions of plans that it was not fitted to: recorded steps and simulated jobs.
add_executable(calibration_table calibration_table.cpp ${PROJECT_SOURCE_DIR}/tests/tuner/gpt_world.cpp)
target_link_libraries(calibration_table PRIVATE simulation tuner nlohmann_json::nlohmann_json trimtab_warnings)
target_include_directories(calibration_table PRIVATE ${PROJECT_SOURCE_DIR}/tuner/src)
