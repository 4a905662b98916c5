# Estimates under other constants than the product's: what bench/scoreboard/fit_estimates.py asks for its fit.
add_executable(estimates_under estimates_under.cpp)
target_link_libraries(estimates_under PRIVATE estimates nlohmann_json::nlohmann_json trimtab_warnings)
