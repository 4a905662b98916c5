# The same libraries from their archives, so that a program needs glibc and libgcc alone, and of glibc an older one than this machine's
# (tests/packaging/test_glibc.py). The distribution has no archives of spdlog, fmt and toml++: their headers are used instead.
set(OPENSSL_USE_STATIC_LIBS ON)
set(ZLIB_USE_STATIC_LIBS ON)
set(Protobuf_USE_STATIC_LIBS ON)
find_package(Boost 1.81 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Protobuf REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

find_library(SQLite3_LIBRARY libsqlite3.a REQUIRED)  # The name is FindSQLite3's, which SQLiteCpp asks.
find_package(SQLiteCpp REQUIRED)
add_library(PkgConfig::SQLITE3 INTERFACE IMPORTED)
target_link_libraries(PkgConfig::SQLITE3 INTERFACE ${SQLite3_LIBRARY} ${CMAKE_DL_LIBS} m)

find_path(FMT_HEADERS fmt/format.h REQUIRED)
find_path(TOMLPLUSPLUS_HEADERS toml++/toml.h REQUIRED)
add_library(PkgConfig::TOMLPLUSPLUS INTERFACE IMPORTED)
target_compile_definitions(PkgConfig::TOMLPLUSPLUS INTERFACE TOML_HEADER_ONLY=1)
find_path(SPDLOG_HEADERS spdlog/spdlog.h REQUIRED)
add_library(fmt::fmt INTERFACE IMPORTED)
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY=1)
add_library(spdlog::spdlog INTERFACE IMPORTED)
target_compile_definitions(spdlog::spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(spdlog::spdlog INTERFACE fmt::fmt Threads::Threads)
