#include "nvml_script.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace trimtab::test {

namespace {

std::string content_of(const std::string& path) {
  std::ifstream stream(path);
  REQUIRE(stream.good());
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace

NvmlScript::NvmlScript(const std::string& fixture) {
  char name[] = "/tmp/trimtab-nvml-XXXXXX";
  const int descriptor = ::mkstemp(name);
  REQUIRE(descriptor >= 0);
  ::close(descriptor);
  path_ = name;
  if (!fixture.empty()) text_ = content_of(std::string(FIXTURES) + "/nvml/" + fixture);
  write();
  REQUIRE(::setenv("TRIMTAB_FAKE_NVML", path_.c_str(), 1) == 0);
}

NvmlScript::~NvmlScript() {
  ::unsetenv("TRIMTAB_FAKE_NVML");
  std::filesystem::remove(path_);
}

void NvmlScript::set(const std::string& question, const std::string& answer) {
  remove(question);
  text_ += question + " " + answer + "\n";
  write();
}

void NvmlScript::remove(const std::string& question) {
  std::istringstream lines(text_);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(question + " ")) kept += line + "\n";
  }
  text_ = kept;
  write();
}

// Renamed over the old one: a call that runs meanwhile reads one or the other.
void NvmlScript::write() const {
  std::ofstream(path_ + ".new") << text_;
  std::filesystem::rename(path_ + ".new", path_);
}

}  // namespace trimtab::test
