#include "scratch.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

Scratch::Scratch() {
  char name[] = "/tmp/trimtab-test-XXXXXX";
  REQUIRE(mkdtemp(name) != nullptr);
  directory_ = name;
}

Scratch::~Scratch() {
  if (std::getenv("TRIMTAB_KEEP_SCRATCH") != nullptr) return;  // to look at what a failed test has left
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::string Scratch::file(const std::string& name, const std::string& content) const {
  std::ofstream(path(name)) << content;
  return path(name);
}
