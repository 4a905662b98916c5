#include "golden_text.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace trimtab::test {

void write_text(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  REQUIRE(file.good());
}

std::string golden_text(const std::string& path, const std::string& text) {
  if (std::getenv("TRIMTAB_WRITE_GOLDEN") != nullptr) write_text(path, text);
  std::ifstream file(path, std::ios::binary);
  std::ostringstream committed;
  committed << file.rdbuf();
  return committed.str();
}

}  // namespace trimtab::test
