#include "temporary_directory.hpp"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>

namespace trimtab::agent {

TemporaryDirectory::TemporaryDirectory() {
  path_ = (std::filesystem::temp_directory_path() / "trimtab-agent-XXXXXX").string();
  REQUIRE(::mkdtemp(path_.data()) != nullptr);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace trimtab::agent
